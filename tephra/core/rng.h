// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): a value is a pure function of
// (seed, stream, step, index), so threads, restarts and call order cannot change it.
#pragma once

#include <array>
#include <cstdint>

#include "tephra/core/tensor.h"

namespace tephra {

struct RngKey {
  uint64_t seed = 0;
  uint32_t stream = 0;  // what the numbers are for
  uint32_t step = 0;
};

std::array<uint32_t, 4> philox(const RngKey& key, uint64_t index);

double uniform(const RngKey& key, uint64_t index);  // in [0, 1), 53 bits
double normal(const RngKey& key, uint64_t index);   // mean 0, variance 1

// Element i becomes mean + std * normal(key, i), computed in double and rounded once.
void fill_normal(const Tensor& x, const RngKey& key, double mean, double std);
void fill_uniform(const Tensor& x, const RngKey& key, double low, double high);

// A stream number from a name, so that a parameter's values depend on nothing but its own name.
uint32_t stream_of(std::string_view name);

}  // namespace tephra

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

constexpr std::array<uint32_t, 4> philox(const RngKey& key, uint64_t index) {
  constexpr uint32_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                               key.stream, key.step};
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiply0} * c[0];
    const uint64_t p1 = uint64_t{kMultiply1} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

// 53 bits as a number in [0, 1).
constexpr double unit_interval(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

double uniform(const RngKey& key, uint64_t index);  // in [0, 1), 53 bits
double normal(const RngKey& key, uint64_t index);   // mean 0, variance 1

// Element i becomes mean + std * normal(key, i), computed in double and rounded once. On a GPU the
// logarithm and cosine may differ in the last bit of a double, which the rounding all but hides.
void fill_normal(const Tensor& x, const RngKey& key, double mean, double std);
void fill_uniform(const Tensor& x, const RngKey& key, double low, double high);

// A stream number from a name, so that a parameter's values depend on nothing but its own name.
uint32_t stream_of(std::string_view name);

namespace kernel {

// Element i becomes shift + scale * (normal or uniform)(key, i).
struct FillRandom {
  const Tensor& x;
  RngKey key;
  bool is_normal;
  double shift, scale;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra

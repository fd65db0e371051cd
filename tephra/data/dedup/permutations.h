// SPDX-License-Identifier: Apache-2.0
// The parameters of MinHash permutations as datasketch, datatrove and NeMo draw them from a
// Mersenne Twister, so that signatures meet theirs bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tephra {

inline constexpr uint64_t kMersenne61 = (uint64_t{1} << 61) - 1;

struct Affine {
  std::vector<uint64_t> a, b;
};

Affine datasketch_family(size_t count, uint32_t seed);          // a and b in turn, 61 bits
Affine datatrove_family(size_t count, uint32_t seed);           // all a, then all b, 61 bits
Affine nemo_family(size_t count, uint32_t seed);                // a and b in turn, 31 bits
std::vector<uint32_t> nemo_seeds(size_t count, uint32_t seed);  // below 10^6, of Zyda-2 as released
Affine native_family(size_t count, uint32_t seed);              // a odd, 32 bits

}  // namespace tephra

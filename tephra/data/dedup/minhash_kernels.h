// SPDX-License-Identifier: Apache-2.0
// What the kernels of minhash_cpu.cpp are called with. Counts of permutations are padded to
// kLanes, the widest vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tephra/data/dedup/permutations.h"

namespace tephra::minhash {

inline constexpr size_t kLanes = 16;

inline constexpr size_t padded(size_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

// Of v < 2^64, v mod (2^61 - 1) = v + q - q 2^61 with the quotient q <= 8. So its low word is the
// low word of v plus at most 8, and the low word of v needs 32-bit arithmetic only.
inline constexpr uint32_t kSlack = 8;

inline uint64_t quotient(uint64_t v) {
  const uint64_t high = v >> 61;  // v = high 2^61 + low, and low + high may reach 2^61 - 1
  return high + (((v & kMersenne61) + high + 1) >> 61);
}
inline uint32_t mersenne_low(uint64_t v) { return static_cast<uint32_t>(v + quotient(v)); }

// A hash can lower the minimum m only if low(v) + kSlack, which may wrap, is not above this.
inline uint32_t bound_of(uint32_t m) { return m > UINT32_MAX - kSlack ? UINT32_MAX : m + kSlack; }

struct Mersenne32Kernel {
  const uint32_t* hashes;  // padded to kLanes with repeats
  size_t hash_count;
  const uint64_t *a, *b;
  const uint32_t *low_a, *low_b;  // low words; b with kSlack added
  size_t padded;                  // permutations
  uint32_t *minima, *bounds;
};

struct Mersenne64Kernel {
  const uint64_t* hashes;
  size_t hash_count;
  const uint64_t *a, *b;
  size_t count;
  uint64_t* minima;
};

struct Native32Kernel {
  const uint32_t* hashes;
  size_t hash_count;
  const uint32_t *a, *b;
  size_t count;
  uint32_t* minima;
};

struct MurmurKernel {
  const uint32_t* mixed;  // whole blocks of the window
  size_t blocks;
  uint32_t last;  // the rest of the window, mixed, and its size
  const uint32_t* seeds;
  size_t count;
  uint32_t* minima;
};

void run(const Mersenne32Kernel& kernel);
void run(const Mersenne64Kernel& kernel);
void run(const Native32Kernel& kernel);
void run(const MurmurKernel& kernel);

}  // namespace tephra::minhash

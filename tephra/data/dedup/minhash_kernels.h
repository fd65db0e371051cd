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
inline constexpr uint32_t kMostQuotient = 8;

inline uint64_t quotient(uint64_t v) {
  const uint64_t high = v >> 61;  // v = high 2^61 + low, and low + high may reach 2^61 - 1
  return high + (((v & kMersenne61) + high + 1) >> 61);
}
inline uint32_t mersenne_low(uint64_t v) { return static_cast<uint32_t>(v + quotient(v)); }

inline uint32_t saturated_sum(uint32_t a, uint32_t b) {
  return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

// The least word of each block of hashes is kept for so many blocks; then only those blocks are
// looked at again that could hold a minimum.
inline constexpr size_t kBlock = 16, kSegmentBlocks = 64;

// Both compare values by a word each that is cheap: at least a word of the value and at most kSlack
// more, and then it may wrap around. So a hash can lower the minimum m only if its word is not
// above bound_of(m).
struct Mersenne32Kernel {
  static constexpr uint32_t kSlack = kMostQuotient;
  static uint32_t bound_of(uint32_t m) { return saturated_sum(m, kSlack); }

  const uint32_t* hashes;  // padded to kBlock with repeats
  size_t hash_count;
  const uint64_t *a, *b;
  const uint32_t *low_a, *low_b;  // low words; b with kSlack added
  size_t padded;                  // permutations
  uint32_t *minima, *bounds;
};

// 8 (v + kMostQuotient) mod 2^64 has the 61 bits on top, and its upper word is theirs or one more.
// Vector units without such products estimate it, by at most 3 * 2^16 - 3 too small: the product of
// two low words by that of their upper halves, which leaves out less than 2^17 - 1, and of this
// product the upper half.
struct Mersenne64Kernel {
  static constexpr uint32_t kSlack = 3 << 16;
  static uint32_t bound_of(uint64_t m) {
    return saturated_sum(static_cast<uint32_t>(m >> 29), kSlack);
  }

  const uint64_t* hashes;  // padded to kBlock with repeats
  size_t hash_count;
  const uint64_t *a, *b;
  const uint32_t *low_a, *high_a;  // words of 8 a
  const uint32_t* high_b;          // of 8 (b + kMostQuotient), with kSlack - 1 added
  size_t padded;                   // permutations
  uint64_t* minima;
  uint32_t* bounds;
};

struct Native32Kernel {
  const uint32_t* hashes;
  size_t hash_count;
  const uint32_t *a, *b;
  size_t count;
  uint32_t* minima;
};

struct MurmurKernel {
  const uint32_t* mixed;   // the four bytes from each byte of the text on, mixed
  const uint32_t* starts;  // of the windows in the text
  const uint32_t* last;    // the rest of each window, mixed, and its size
  size_t windows;
  size_t blocks;  // whole ones of each window
  const uint32_t* seeds;
  size_t count;
  uint32_t* minima;
  // As data: a factor that compilers know becomes a shift and a sum, and vector units have fewer
  // shifts a cycle than the hash needs already.
  uint32_t five = 5;
};

// Whole vectors are read and written: kLanes more of each.
struct WindowHashKernel {
  const uint32_t* mixed;  // from the first window on
  const uint32_t* last;
  size_t windows;
  size_t blocks;
  uint32_t seed;
  uint32_t* hashes;
};

void run(const Mersenne32Kernel& kernel);
void run(const Mersenne64Kernel& kernel);
void run(const Native32Kernel& kernel);
void run(const MurmurKernel& kernel);
void run(const WindowHashKernel& kernel);

}  // namespace tephra::minhash

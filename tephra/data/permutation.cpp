// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/permutation.h"

#include <algorithm>
#include <bit>

#include "tephra/base/error.h"

namespace tephra {

Permutation::Permutation(int64_t size, const RngKey& key)
    : size_(static_cast<uint64_t>(size)), key_(key) {
  TEPHRA_ASSERT(size >= 1, "there is something to order");
  half_bits_ = std::max(1, (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2);
}

// Each round adds a random function of one half to the other; four rounds of a good function cannot
// be told from a random order.
uint64_t Permutation::shuffle(uint64_t value) const {
  constexpr uint64_t kRounds = 4;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const auto r = philox(key_, round << 32 | right);
    const uint64_t next = (left ^ r[0]) & mask;
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator()(int64_t index) const {
  auto value = static_cast<uint64_t>(index);
  do {
    value = shuffle(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace tephra

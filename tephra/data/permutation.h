// SPDX-License-Identifier: Apache-2.0
// A shuffled order of 0 to n - 1 that is computed, not stored: a Feistel network on the smallest
// even number of bits that holds n, walked until it lands below n (Black and Rogaway, 2002).
#pragma once

#include <cstdint>

#include "tephra/core/rng.h"

namespace tephra {

class Permutation {
 public:
  Permutation(int64_t size, const RngKey& key);  // size >= 1
  int64_t operator()(int64_t index) const;       // where `index`, below size, goes

 private:
  uint64_t shuffle(uint64_t value) const;

  uint64_t size_;
  RngKey key_;
  int half_bits_;
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Random choices for one task, in the order they are asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/core/rng.h"

namespace tephra {

class Draw {
 public:
  // `attempt` tells redraws of one task apart.
  Draw(const RngKey& key, uint32_t attempt) : key_(key), next_(uint64_t{attempt} << 32) {}

  uint64_t bits();
  int64_t between(int64_t low, int64_t high);  // both included
  bool flip() { return between(0, 1) == 1; }
  char pick(std::string_view letters);
  std::string word(int64_t length, std::string_view letters);
  std::string number(int64_t digits);  // decimal, without leading zeros

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1],
                values[static_cast<size_t>(between(0, static_cast<int64_t>(i) - 1))]);
    }
  }

 private:
  RngKey key_;
  uint64_t next_;
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Choices for made tasks: a run of numbers that a seed and a word name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tephra/base/format.h"
#include "tephra/core/rng.h"

namespace tephra {

class TaskDice {
 public:
  TaskDice(uint64_t seed, std::string_view what) : key_{.seed = seed, .stream = stream_of(what)} {}
  int below(size_t n) { return static_cast<int>(uniform(key_, next_++) * static_cast<double>(n)); }
  template <class List>
  const auto& pick(const List& list) {
    return list[static_cast<size_t>(below(list.size()))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) {
      std::swap(list[i - 1], list[static_cast<size_t>(below(i))]);
    }
  }
  std::string letters(int count, char first) {
    std::string word;
    for (int i = 0; i < count; ++i) word += static_cast<char>(first + below(26));
    return word;
  }
  std::string number() { return format("{}", 1000000 + below(9000000)); }

 private:
  RngKey key_;
  uint64_t next_ = 0;
};

}  // namespace tephra

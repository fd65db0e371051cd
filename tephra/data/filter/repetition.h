// SPDX-License-Identifier: Apache-2.0
// How much of a text repeats itself (Rae et al., 2021, table A1).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tephra/data/filter/hash_table.h"
#include "tephra/data/filter/words.h"

namespace tephra {

struct Repeated {
  int64_t count = 0, repeated = 0;  // pieces, and those that were seen before
  int64_t repeated_chars = 0;       // code points of the latter

  double fraction() const {
    return count == 0 ? 0 : static_cast<double>(repeated) / static_cast<double>(count);
  }
};

class Repetition {
 public:
  Repeated pieces(std::span<const std::string_view> pieces);

  // Keeps the words' hashes for the calls below. What stands twice has parts that stand twice: each
  // call looks only where an earlier one for fewer words found something.
  void set_words(std::span<const TextWord> words);

  // Code points of the most frequent n words in a row, joined by spaces, times how often they
  // stand; 0 when nothing stands twice. Of equals, those that stand first.
  int64_t top_ngram_chars(size_t n);

  // Scans from left to right: n words that were seen add their code points and are jumped over,
  // others are remembered and one word is passed.
  int64_t duplicate_ngram_chars(size_t n);

 private:
  struct Count {
    uint32_t count = 0, first = 0;
  };

  uint64_t ngram_hash(size_t begin, size_t n) const;
  int64_t chars(size_t begin, size_t n) const { return chars_[begin + n] - chars_[begin]; }
  bool may_repeat(size_t begin, size_t n) const { return repeats_[begin] + known_ > n; }
  void count_runs();

  std::vector<uint64_t> prefix_;  // prefix_[i]: polynomial hash of the first i words
  std::vector<uint64_t> power_;
  std::vector<int64_t> chars_;  // code points of the first i words
  // From each word on, how many in a row begin known_ words that stand somewhere else, too.
  std::vector<uint32_t> repeats_, marks_;
  size_t known_ = 1;
  HashTable<Count> counts_;
  HashTable<bool> seen_;
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Counting words, the units that a tokenizer is trained on. Words of the three forms:
//   byte-level   pieces of GPT-4's split pattern, after NFC
//   gemma        ▁ for spaces; letters, symbols, newlines and single digits apart; letters and
//                symbols with the ▁ before them, other ▁ are a word of their own
//   llama        the same, with ▁ before the text
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/function_ref.h"

namespace tephra {

enum class TokenizerForm { byte_level, gemma, llama };

// The words of one text, in order. Valid UTF-8 only.
void each_word(std::string_view text, TokenizerForm form, FunctionRef<void(std::string_view)> word);

struct WordCount {
  std::string word;
  int64_t count = 0;
};

class WordCounter {
 public:
  explicit WordCounter(TokenizerForm form);
  ~WordCounter();

  // Counts these texts on all threads. Bytes that are not UTF-8 count as U+FFFD.
  void add(const std::vector<std::string_view>& texts);

  // All words, in the order of their bytes.
  std::vector<WordCount> take();

 private:
  struct Table;
  TokenizerForm form_;
  std::unique_ptr<Table> table_;
};

}  // namespace tephra

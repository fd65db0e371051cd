// SPDX-License-Identifier: Apache-2.0
// The words of a text: runs of letters and digits in lower case, each with a 64-bit hash that names
// it from here on. Scripts written without spaces give one word a character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tephra {

struct Word {
  std::string_view text;  // in lower case; valid until the next word is read
  uint64_t hash = 0;      // of that text, the same on every machine
  size_t begin = 0;       // bytes [begin, end) of the text that was read
  size_t end = 0;
  bool capital = false;  // begins with a capital letter
};

class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) {}  // valid UTF-8, not owned
  bool next(Word& word);                                       // false at the end

 private:
  bool is_word_at(size_t at) const;
  uint64_t lower_ascii(size_t begin, size_t end);
  void take_wide(Word& word);  // a word with characters beyond ASCII

  std::string_view text_;
  size_t at_ = 0;
  std::string lower_;
};

uint64_t word_hash(std::string_view lower);

// The hash of the word without an English plural's ending: "towers" is "tower", "cities" is "city".
uint64_t stem_hash(const Word& word);

// English words that say nothing about a text's subject: the, of, which, ...
bool is_stop_word(uint64_t hash);

}  // namespace tephra

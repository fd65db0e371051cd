// SPDX-License-Identifier: Apache-2.0
// Texts made alike before they are compared: lower case, no punctuation, single spaces. Words lie
// one after another with a space between, so n words in a row are one piece of the buffer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

struct AsciiMasks;

enum class Normalization {
  zyda1,    // ASCII punctuation is deleted
  fineweb,  // punctuation becomes space, numbers 0, and accents go (NFD without marks)
};

class NormalWords {
 public:
  static constexpr size_t kReadable = 128;

  // Characters of scripts without spaces become words of their own.
  void set(std::string_view text, Normalization normalization);

  size_t size() const { return count_; }
  std::string_view text() const {
    return size_ == 0 ? std::string_view() : std::string_view(text_).substr(1, size_ - 1);
  }
  // Words [first, first + count), joined by spaces. kReadable bytes can be read from there on.
  std::string_view words(size_t first, size_t count) const {
    const size_t end = first + count < count_ ? starts_[first + count] - 1 : size_;
    return {text_.data() + starts_[first], end - starts_[first]};
  }

 private:
  void put_block(const AsciiMasks& masks, const char* lowered, std::string_view text, size_t at);
  void put_run(const char* from, size_t size);
  void put_wide(uint32_t code_point, Normalization normalization);
  void put_number();
  void begin_word();

  std::string text_;
  std::string decomposed_;
  std::vector<uint32_t> starts_;
  size_t count_ = 0;  // of starts_ that is used
  size_t size_ = 0;   // of text_ that is used; a space stands before every word
  size_t next_ = 0;   // byte of the text after the last wide character
  Normalization normalization_ = Normalization::zyda1;
  bool gap_ = true;     // the next character begins a word
  bool digit_ = false;  // the last one was a digit
};

}  // namespace tephra

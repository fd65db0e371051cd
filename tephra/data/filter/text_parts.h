// SPDX-License-Identifier: Apache-2.0
// A text with its words and lines, each found when the first filter asks for them and kept for the
// others.
#pragma once

#include "tephra/data/filter/words.h"

namespace tephra {

class TextParts {
 public:
  void set(std::string_view text) {
    text_ = text;
    has_words_ = has_lines_ = false;
    chars_ = -1;
  }

  std::string_view text() const { return text_; }
  int64_t chars() {  // code points
    if (chars_ < 0) chars_ = count_code_points(text_);
    return chars_;
  }
  const std::vector<TextWord>& words() {
    if (!has_words_) split_words(text_, words_);
    has_words_ = true;
    return words_;
  }
  const std::vector<std::string_view>& lines() {
    if (!has_lines_) split_lines(text_, lines_);
    has_lines_ = true;
    return lines_;
  }

 private:
  std::string_view text_;
  std::vector<TextWord> words_;
  std::vector<std::string_view> lines_;
  int64_t chars_ = -1;
  bool has_words_ = false, has_lines_ = false;
};

}  // namespace tephra

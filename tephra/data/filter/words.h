// SPDX-License-Identifier: Apache-2.0
// Words and lines of a text, for filters. A word is a run of letters, digits, marks and
// underscores, also with apostrophes and hyphens inside; of scripts that write no spaces, one
// character. Any other character is a symbol, a run of full stops one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tephra {

struct TextWord {
  std::string_view text;
  uint32_t chars = 0;  // code points
  bool symbol = false;
  bool alphabetic = false;  // has a letter
};

void split_words(std::string_view text, std::vector<TextWord>& words);

// Whether words of this script are written without spaces between them: Han, kana, Thai, Lao,
// Khmer, Myanmar.
bool is_unspaced(uint32_t code_point);

int64_t count_code_points(std::string_view utf8);

// Pieces between newlines, empty ones too.
void split_lines(std::string_view text, std::vector<std::string_view>& lines);

}  // namespace tephra

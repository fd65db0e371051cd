// SPDX-License-Identifier: Apache-2.0
// The tokens of a question as the grammar of time sees them: words in lower case, numbers and
// ordinals however they are written, names of months and days also when misspelt, a few marks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

struct TimeToken {
  enum class Kind { word, number, ordinal, mark };

  Kind kind = Kind::word;
  std::string text;     // in lower case, slips of the pen put right; marks are one character
  int64_t value = 0;    // of numbers and ordinals: 21 for "21st", "twenty-first", "twenty first"
  int digits = 0;       // how many of them when written in digits
  int month = 0;        // 1 to 12 when it names one
  int weekday = 0;      // 1 Monday to 7 Sunday when it names one
  bool sure = true;     // the name of a month or day is written out in full and means nothing else
  bool plural = false;  // of a weekday: "Mondays"
  bool capital = false;
  size_t begin = 0;  // bytes of the text
  size_t end = 0;
};

// At most 4096 tokens: what comes after is left alone.
std::vector<TimeToken> time_tokens(std::string_view text);

}  // namespace tephra

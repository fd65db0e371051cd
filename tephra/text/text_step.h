// SPDX-License-Identifier: Apache-2.0
// The one-line helpers that the steps of a tokenizer.json share: reading "type", refusing what is
// not supported, patterns that are a plain string or a regular expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tephra/base/function_ref.h"
#include "tephra/base/json.h"
#include "tephra/text/regex.h"

namespace tephra {

[[noreturn]] void unsupported_step(const Fields& step, std::string_view kind);

// {"String": " "} or {"Regex": "..."}.
class TextPattern {
 public:
  explicit TextPattern(const Fields& step);  // reads its "pattern"

  const std::string& text() const { return text_; }
  bool is_regex() const { return regex_.has_value(); }
  void each_match(std::string_view text, FunctionRef<void(size_t begin, size_t end)> found) const;

 private:
  std::string text_;
  std::optional<Regex> regex_;
};

// `out` gets the text with each match replaced; an error when that is longer than `limit` bytes.
void replace_matches(std::string_view text, const TextPattern& pattern, std::string_view content,
                     std::string& out, size_t limit = SIZE_MAX);
void require_short(std::string_view made, size_t limit);

std::string with_replaced(std::string_view text, std::string_view from, std::string_view to);

// The elements of a Sequence, each an object.
std::vector<Fields> sequence_of(const Fields& step, std::string_view key);

}  // namespace tephra

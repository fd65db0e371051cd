// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/answers.h"

#include <algorithm>

#include "tephra/base/text.h"

namespace tephra {
namespace {

// ASCII letters in lower case, all other bytes as they are.
std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::optional<std::string_view> last_boxed(std::string_view text) {
  constexpr std::string_view kBox = "\\boxed{";
  const size_t at = text.rfind(kBox);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t begin = at + kBox.size();
  int depth = 1;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return text.substr(begin, i - begin);
  }
  return std::nullopt;  // cut off
}

// What follows the last of a mark, to the end of the first line that says something.
std::optional<std::string_view> line_after(std::string_view text, std::string_view searched,
                                           std::string_view mark) {
  const size_t at = searched.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  text = trim(text.substr(at + mark.size()));
  return text.substr(0, text.find('\n'));
}

std::optional<std::string_view> after_answer(std::string_view text, bool also_is) {
  const std::string lower = lowered(text);
  const size_t colon = lower.rfind("answer:");
  const size_t is = also_is ? lower.rfind("answer is") : std::string::npos;
  const bool use_is = is != std::string::npos && (colon == std::string::npos || is > colon);
  return line_after(text, lower, use_is ? "answer is" : "answer:");
}

// Of "12 + 30 = 42" the result, of "5 apples, not 6" the first.
std::optional<Number> stated_number(std::string_view line) {
  const size_t equals = line.rfind('=');
  for (const std::string_view part :
       {equals == std::string_view::npos ? std::string_view() : line.substr(equals + 1), line}) {
    const std::vector<Number> numbers = numbers_in(part);
    if (!numbers.empty()) return numbers.front();
  }
  return std::nullopt;
}

std::optional<Number> last_number(std::string_view text) {
  const std::vector<Number> numbers = numbers_in(text);
  return numbers.empty() ? std::nullopt : std::optional(numbers.back());
}

std::string evened(std::string_view text) {
  std::string result;
  for (const char c : trim(text)) {
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!space) {
      result += c;
    } else if (result.back() != ' ') {
      result += ' ';
    }
  }
  if (result.ends_with('.')) result.pop_back();
  return result;
}

}  // namespace

std::optional<Number> numeric_answer(std::string_view text) {
  if (const auto box = last_boxed(text)) {
    if (auto number = last_number(*box)) return number;
  }
  if (const auto line = line_after(text, text, "####")) {
    if (auto number = stated_number(*line)) return number;
  }
  if (const auto line = after_answer(text, true)) {
    if (auto number = stated_number(*line)) return number;
  }
  return last_number(text);
}

std::string exact_answer(std::string_view text) {
  if (const auto box = last_boxed(text)) return evened(*box);
  if (const auto line = line_after(text, text, "####")) return evened(*line);
  if (const auto line = after_answer(text, false)) return evened(*line);
  return evened(text);
}

Grade grade_answer(std::string_view text, std::string_view right, Match match, double tolerance) {
  if (match == Match::exact) {
    std::string given = exact_answer(text);
    const bool same = given == exact_answer(right);
    return {std::move(given), same};
  }
  const std::optional<Number> got = numeric_answer(text), want = numeric_answer(right);
  if (!got) return {};
  return {got->text, want && same_number(*got, *want, tolerance)};
}

}  // namespace tephra

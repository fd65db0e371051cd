// SPDX-License-Identifier: Apache-2.0
// The value of a formula of and, or, not: the leftmost part that can be evaluated, step by step.
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

std::string formula(Draw& draw, int64_t operators) {
  if (operators == 0) return draw.flip() ? "T" : "F";
  if (draw.between(0, 4) == 0) return format("!{}", formula(draw, operators - 1));
  const int64_t left = draw.between(0, operators - 1);
  const std::string a = formula(draw, left), b = formula(draw, operators - 1 - left);
  return format("({}{}{})", a, draw.flip() ? '&' : '|', b);
}

// The length of what can be evaluated at `text`, "!T" or "(T&F)", and its value; 0 when nothing.
size_t step_length(std::string_view text, char& value) {
  const auto is_value = [&](size_t i) { return text[i] == 'T' || text[i] == 'F'; };
  if (text.size() >= 2 && text[0] == '!' && is_value(1)) {
    value = text[1] == 'T' ? 'F' : 'T';
    return 2;
  }
  if (text.size() >= 5 && text[0] == '(' && is_value(1) && is_value(3) && text[4] == ')') {
    const bool a = text[1] == 'T', b = text[3] == 'T';
    value = (text[2] == '&' ? a && b : a || b) ? 'T' : 'F';
    return 5;
  }
  return 0;
}

}  // namespace

Task make_logic(Draw& draw, int64_t level) {
  std::string text = formula(draw, level + 3);
  const std::string prompt =
      format("Evaluate {}, where T is true, F is false, ! not, & and, | or.", text);
  Lines lines;
  while (text.size() > 1) {
    for (size_t at = 0; at < text.size(); ++at) {
      char value = 0;
      const size_t length = step_length(std::string_view(text).substr(at), value);
      if (length == 0) continue;
      const std::string part = text.substr(at, length);
      text.replace(at, length, 1, value);
      lines.add("{} is {}: {}", part, value, text);
      break;
    }
  }
  return {prompt, lines.text(), text, ""};
}

}  // namespace tephra

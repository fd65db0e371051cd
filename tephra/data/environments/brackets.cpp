// SPDX-License-Identifier: Apache-2.0
// Bracket matching: what is still open after each bracket, then its closing backwards.
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

char closing_of(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

}  // namespace

Task make_brackets(Draw& draw, int64_t level) {
  std::string text, open;
  Lines lines;
  const int64_t length = 2 * level + 4;
  while (static_cast<int64_t>(text.size()) < length || open.empty()) {
    const bool closes = !open.empty() && draw.between(0, 9) < 4;
    if (closes) {
      text += closing_of(open.back());
      open.pop_back();
    } else {
      open += draw.pick("([{");
      text += open.back();
    }
    lines.add("{} open {}", text.back(), open.empty() ? "none" : open);
  }
  std::string answer;
  for (size_t i = open.size(); i > 0; --i) answer += closing_of(open[i - 1]);
  return {format("Close the open brackets of {}", text), lines.text(), answer, ""};
}

}  // namespace tephra

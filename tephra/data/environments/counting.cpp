// SPDX-License-Identifier: Apache-2.0
// How often a letter occurs, with a running count.
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_counting(Draw& draw, int64_t level) {
  const std::string word = draw.word(4 + 2 * level, "abcde");
  const char wanted = draw.pick("abcde");
  Lines lines;
  std::string tally;
  int64_t count = 0;
  for (const char c : word) {
    if (!tally.empty()) tally += ' ';
    tally += c == wanted ? format("{}{}", c, ++count) : std::string(1, c);
  }
  lines.add("{}", tally);
  return {format("How often does {} occur in {}?", wanted, word), lines.text(), format("{}", count),
          ""};
}

}  // namespace tephra

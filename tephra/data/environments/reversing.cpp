// SPDX-License-Identifier: Apache-2.0
// A word backwards, letter by letter.
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_reversing(Draw& draw, int64_t level) {
  const std::string word = draw.word(level + 2, "abcdefghijklmnopqrstuvwxyz");
  const std::vector<char> letters(word.begin(), word.end());
  const std::vector<char> backwards(word.rbegin(), word.rend());
  Lines lines;
  lines.add("letters {}", joined(letters));
  lines.add("backwards {}", joined(backwards));
  return {format("Reverse the word {}", word), lines.text(),
          std::string(word.rbegin(), word.rend()), ""};
}

}  // namespace tephra

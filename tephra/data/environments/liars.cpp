// SPDX-License-Identifier: Apache-2.0
// Who lies: one is known, and each says of another whether they lie.
#include <algorithm>

#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_liars(Draw& draw, int64_t level) {
  std::vector<int64_t> chain;
  for (int64_t i = 1; i <= level + 4; ++i) chain.push_back(i);
  draw.shuffle(chain);
  const auto claim = [](bool honest) { return honest ? "never lies" : "always lies"; };
  const auto finding = [](bool honest) { return honest ? "is honest" : "lies"; };
  bool honest = draw.flip();
  std::vector<int64_t> liars;
  if (!honest) liars.push_back(chain[0]);
  std::string prompt =
      format("P{} {}. Everyone else always lies or never does.", chain[0], claim(honest));
  Lines lines;
  for (size_t i = 1; i < chain.size(); ++i) {
    const int64_t who = chain[i - 1], whom = chain[i];
    const bool said = draw.flip();
    prompt += format(" P{} says: P{} {}.", who, whom, claim(said));
    lines.add("P{} {}, so P{} {}", who, finding(honest), whom, finding(honest == said));
    honest = honest == said;
    if (!honest) liars.push_back(whom);
  }
  std::sort(liars.begin(), liars.end());
  std::string answer;
  for (const int64_t liar : liars) answer += format("{}P{}", answer.empty() ? "" : " ", liar);
  return {prompt + " Who lies?", lines.text(), liars.empty() ? "nobody" : answer, ""};
}

}  // namespace tephra

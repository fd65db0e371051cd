// SPDX-License-Identifier: Apache-2.0
// String rewriting: two letters become one, by the first rule that matches, at its leftmost place.
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

struct Rule {
  std::string from;
  char to;
};

// Whether a rule matched; `word` then holds the result.
bool rewrite(const std::vector<Rule>& rules, std::string& word, Lines& lines) {
  for (const Rule& rule : rules) {
    const size_t at = word.find(rule.from);
    if (at == std::string::npos) continue;
    word.replace(at, rule.from.size(), 1, rule.to);
    lines.add("{}->{}: {}", rule.from, rule.to, word);
    return true;
  }
  return false;
}

}  // namespace

Task make_rewriting(Draw& draw, int64_t level) {
  constexpr std::string_view kLetters = "abcd";
  std::vector<std::string> pairs;
  for (const char a : kLetters) {
    for (const char b : kLetters) pairs.push_back({a, b});
  }
  draw.shuffle(pairs);
  const auto count = static_cast<size_t>(draw.between(3, 8));
  std::vector<Rule> rules;
  std::string listed;
  for (size_t i = 0; i < count; ++i) {
    rules.push_back({pairs[i], draw.pick(kLetters)});
    listed += format("{}{}->{}", i > 0 ? ", " : "", rules[i].from, rules[i].to);
  }
  std::string word = draw.word(level + 3, kLetters);
  const std::string prompt =
      format("Rewrite {} by the first rule that fits, leftmost, until none does: {}", word, listed);
  Lines lines;
  while (rewrite(rules, word, lines)) {
  }
  lines.add("no rule fits {}", word);
  return {prompt, lines.text(), word, ""};
}

}  // namespace tephra

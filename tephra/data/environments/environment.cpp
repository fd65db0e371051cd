// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/environments/environment.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/text.h"
#include "tephra/data/environments/decimal.h"

namespace tephra {
namespace {

constexpr uint64_t kHeldOutShare = 10;  // one problem in ten
// With one problem in ten, that many redraws all miss with a chance of 1e-45.
constexpr uint32_t kMaxAttempts = 1000;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c != ' ' && c != ',' && c != '\n' && c != '\t' && c != '\r') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// "-007" as "-7", "+7" as "7"; nothing when it is no integer.
std::string canonical_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return {};
  const std::string digits = decimal::trimmed(text);
  return negative && digits != "0" ? "-" + digits : digits;
}

}  // namespace

bool same_text(const Task& task, std::string_view answer) {
  return words_of(answer) == words_of(task.answer);
}

bool same_integer(const Task& task, std::string_view answer) {
  return canonical_integer(answer) == task.answer;
}

bool same_words_in_any_order(const Task& task, std::string_view answer) {
  std::vector<std::string> given = words_of(answer), wanted = words_of(task.answer);
  std::sort(given.begin(), given.end());
  std::sort(wanted.begin(), wanted.end());
  return given == wanted;
}

Split split_of(const Environment& environment, const Task& task) {
  const std::string& content = task.content.empty() ? task.prompt : task.content;
  const std::string key = format("{}\n{}", environment.name, content);
  const uint64_t hash = xxh3(key);
  return hash % kHeldOutShare == 0 ? Split::held_out : Split::train;
}

Task generate(const Environment& environment, int64_t level, uint64_t seed, Split split) {
  require(level >= 1, "{}: levels start at 1, got {}", environment.name, level);
  const RngKey key{seed, stream_of(environment.name), static_cast<uint32_t>(level)};
  for (uint32_t attempt = 0; attempt < kMaxAttempts; ++attempt) {
    Draw draw(key, attempt);
    Task task = environment.make(draw, level);
    if (split_of(environment, task) == split) return task;
  }
  throw Error(Fault::usage,
              format("{}: level {} has no {} task within {} draws", environment.name, level,
                     split == Split::train ? "training" : "held-out", kMaxAttempts),
              "take a higher level, which has more problems");
}

bool verify(const Environment& environment, const Task& task, std::string_view text) {
  constexpr std::string_view kMark = "Answer:";
  const size_t at = text.rfind(kMark);
  if (at != std::string_view::npos) text.remove_prefix(at + kMark.size());
  return environment.accepts(task, trim(text));
}

std::string solution(const Task& task) {
  return format("{}\nAnswer: {}", task.reasoning, task.answer);
}

}  // namespace tephra

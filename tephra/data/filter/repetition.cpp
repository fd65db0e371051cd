// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/filter/repetition.h"

#include "tephra/base/hash.h"

namespace tephra {
namespace {

constexpr uint64_t kBase = 0x9e3779b97f4a7c15;  // odd: no power of it loses bits

uint64_t mixed(uint64_t h) {
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93;
  return h ^ h >> 32;
}

}  // namespace

Repeated Repetition::pieces(std::span<const std::string_view> pieces) {
  Repeated result;
  seen_.reset(pieces.size());
  for (const std::string_view piece : pieces) {
    ++result.count;
    bool& seen = seen_[xxh3(piece)];
    if (seen) {
      ++result.repeated;
      result.repeated_chars += count_code_points(piece);
    }
    seen = true;
  }
  return result;
}

void Repetition::set_words(std::span<const TextWord> words) {
  prefix_.resize(words.size() + 1);
  chars_.resize(words.size() + 1);
  prefix_[0] = 0;
  chars_[0] = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    prefix_[i + 1] = prefix_[i] * kBase + xxh3(words[i].text);
    chars_[i + 1] = chars_[i] + words[i].chars;
  }
  if (power_.empty()) power_.push_back(1);
  while (power_.size() < 16) power_.push_back(power_.back() * kBase);
  known_ = 1;
  repeats_.assign(words.size() + 1, UINT32_MAX / 2);  // of single words nothing is known
}

// From marks of what repeats to the lengths of their runs.
void Repetition::count_runs() {
  uint32_t run = 0;
  for (size_t i = repeats_.size(); i-- > 0;) {
    run = repeats_[i] != 0 ? run + 1 : 0;
    repeats_[i] = run;
  }
}

uint64_t Repetition::ngram_hash(size_t begin, size_t n) const {
  return mixed(prefix_[begin + n] - prefix_[begin] * power_[n]);
}

int64_t Repetition::top_ngram_chars(size_t n) {
  const size_t words = prefix_.size() - 1;
  if (words < n) return 0;
  counts_.reset(words);
  marks_.assign(repeats_.size(), 0);
  Count best;
  for (size_t i = 0; i + n <= words; ++i) {
    if (!may_repeat(i, n)) continue;
    Count& count = counts_[ngram_hash(i, n)];
    if (count.count == 0) count.first = static_cast<uint32_t>(i);
    if (++count.count > 1) marks_[i] = marks_[count.first] = 1;
    if (count.count > best.count || (count.count == best.count && count.first < best.first)) {
      best = count;
    }
  }
  repeats_.swap(marks_);
  known_ = n;
  count_runs();
  if (best.count < 2) return 0;
  return best.count * (chars(best.first, n) + static_cast<int64_t>(n) - 1);
}

int64_t Repetition::duplicate_ngram_chars(size_t n) {
  const size_t words = prefix_.size() - 1;
  if (words < n) return 0;
  seen_.reset(words);
  int64_t repeated = 0;
  for (size_t i = 0; i + n <= words;) {
    if (!may_repeat(i, n)) {
      ++i;
      continue;
    }
    bool& seen = seen_[ngram_hash(i, n)];
    if (seen) {
      repeated += chars(i, n);
      i += n;
    } else {
      seen = true;
      ++i;
    }
  }
  return repeated;
}

}  // namespace tephra

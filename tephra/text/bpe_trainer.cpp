// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/bpe_trainer.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>

#include "tephra/base/error.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/text/byte_alphabet.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr int32_t kStranger = -1;  // a character without a token: nothing merges with it

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& p) const {
    const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(p.first)) << 32 |
                         static_cast<uint32_t>(p.second);
    const uint64_t mixed = key * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 32;
  }
};

struct PairInfo {
  int64_t count = 0;
  std::vector<uint32_t> words;  // where it occurs or did; may repeat
};

struct Candidate {
  int64_t count;
  Pair pair;
  // Of the heap: the greatest comes first.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  Trainer(const std::vector<WordCount>& words, const BpeTrainOptions& options) : o_(options) {
    make_alphabet(words);
    spell(words);
    count_pairs();
  }

  TrainedBpe train() {
    Progress progress("learning merges", o_.vocab_size - size(), "merges");
    while (size() < o_.vocab_size) {
      stop_if_interrupted();
      const std::optional<Pair> pair = most_frequent();
      if (!pair) break;
      merge(*pair);
      progress.add();
    }
    return std::move(result_);
  }

 private:
  struct Word {
    size_t begin;
    uint32_t length;
    int64_t count;
  };

  int64_t size() const { return static_cast<int64_t>(result_.tokens.size()); }
  int32_t add_token(std::string token, int64_t chars) {
    const auto id = static_cast<int32_t>(result_.tokens.size());
    by_text_.emplace(token, id);
    result_.tokens.push_back(std::move(token));
    chars_.push_back(chars);
    return id;
  }

  void make_alphabet(const std::vector<WordCount>& words);
  std::vector<uint32_t> covered_characters(const std::vector<WordCount>& words) const;
  void spell(const std::vector<WordCount>& words);
  void count_pairs();
  std::optional<Pair> most_frequent();
  void merge(Pair pair);
  void merge_in(uint32_t word, Pair pair, int32_t merged);
  void change(Pair pair, int64_t by, uint32_t word);

  const BpeTrainOptions& o_;
  TrainedBpe result_;
  std::vector<int64_t> chars_;                 // of each token, for max_token_chars
  std::unordered_map<uint32_t, int32_t> ids_;  // of characters, or of bytes
  std::unordered_map<std::string, int32_t> by_text_;
  int32_t reserved_ = 0;  // special and byte tokens come first; no merge may spell one
  std::vector<Word> words_;
  std::vector<int32_t> symbols_;
  std::unordered_map<Pair, PairInfo, PairHash> pairs_;
  std::vector<Pair> risen_;  // pairs whose count went up since they were last in the heap
  std::priority_queue<Candidate> heap_;
};

// Printable ASCII, and the most frequent characters that together are `coverage` of the text; by
// code point.
std::vector<uint32_t> Trainer::covered_characters(const std::vector<WordCount>& words) const {
  std::unordered_map<uint32_t, int64_t> counts;
  int64_t total = 0;
  for (const WordCount& w : words) {
    for (size_t at = 0; at < w.word.size();) {
      const CodePoint c = first_code_point(w.word.data() + at);
      counts[c.value] += w.count;
      total += w.count;
      at += c.bytes;
    }
  }
  std::vector<std::pair<int64_t, uint32_t>> order;
  for (const auto& [c, count] : counts) order.emplace_back(-count, c);
  std::sort(order.begin(), order.end());
  std::vector<uint32_t> kept;
  for (uint32_t c = 0x21; c < 0x7f; ++c) kept.push_back(c);
  int64_t covered = 0;
  for (const auto& [count, c] : order) {
    if (static_cast<double>(covered) >= o_.coverage * static_cast<double>(total)) break;
    covered -= count;
    if (c < 0x21 || c >= 0x7f) kept.push_back(c);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

void Trainer::make_alphabet(const std::vector<WordCount>& words) {
  for (const std::string& token : o_.special_tokens) add_token(token, 0);
  reserved_ = static_cast<int32_t>(size());
  if (o_.form == TokenizerForm::byte_level) {
    std::vector<std::pair<uint32_t, uint32_t>> order;  // by the character that spells the byte
    for (uint32_t b = 0; b < 256; ++b) order.emplace_back(byte_alphabet()[b], b);
    std::sort(order.begin(), order.end());
    for (const auto& [c, b] : order) ids_[b] = add_token(to_utf8(c), 1);
  } else {
    for (int b = 0; b < 256; ++b) add_token(byte_token(static_cast<uint8_t>(b)), 0);
    reserved_ = static_cast<int32_t>(size());
    for (const uint32_t c : covered_characters(words)) ids_[c] = add_token(to_utf8(c), 1);
  }
  require(size() <= o_.vocab_size,
          "--vocab-size: special tokens, bytes and characters take {}, got {}; ask for more{}",
          size(), o_.vocab_size,
          o_.form == TokenizerForm::byte_level ? "" : ", or lower --coverage");
}

void Trainer::spell(const std::vector<WordCount>& words) {
  for (const WordCount& w : words) {
    const size_t begin = symbols_.size();
    for (size_t at = 0; at < w.word.size();) {
      CodePoint c{static_cast<unsigned char>(w.word[at]), 1};
      if (o_.form != TokenizerForm::byte_level) c = first_code_point(w.word.data() + at);
      const auto found = ids_.find(c.value);
      symbols_.push_back(found == ids_.end() ? kStranger : found->second);
      at += c.bytes;
    }
    words_.push_back({begin, static_cast<uint32_t>(symbols_.size() - begin), w.count});
  }
}

void Trainer::change(Pair pair, int64_t by, uint32_t word) {
  if (pair.first == kStranger || pair.second == kStranger) return;
  PairInfo& info = pairs_[pair];
  info.count += by;
  if (by <= 0) return;
  if (info.words.empty() || info.words.back() != word) info.words.push_back(word);
  risen_.push_back(pair);
}

void Trainer::count_pairs() {
  for (uint32_t i = 0; i < words_.size(); ++i) {
    const Word& w = words_[i];
    for (size_t at = w.begin; at + 1 < w.begin + w.length; ++at) {
      change({symbols_[at], symbols_[at + 1]}, w.count, i);
    }
    risen_.clear();
  }
  for (const auto& [pair, info] : pairs_) heap_.push({info.count, pair});
}

// Counts in the heap may be too high; a pair whose count fell goes back with the right one.
std::optional<Pair> Trainer::most_frequent() {
  while (!heap_.empty()) {
    const Candidate top = heap_.top();
    heap_.pop();
    const int64_t count = pairs_[top.pair].count;
    if (count < o_.min_count) continue;
    const int64_t chars =
        chars_[static_cast<size_t>(top.pair.first)] + chars_[static_cast<size_t>(top.pair.second)];
    if (o_.max_token_chars > 0 && chars > o_.max_token_chars) continue;
    if (count == top.count) return top.pair;
    if (count < top.count) heap_.push({count, top.pair});
  }
  return std::nullopt;
}

void Trainer::merge(Pair pair) {
  const auto text = [&](int32_t id) { return result_.tokens[static_cast<size_t>(id)]; };
  const std::string token = text(pair.first) + text(pair.second);
  const int64_t chars =
      chars_[static_cast<size_t>(pair.first)] + chars_[static_cast<size_t>(pair.second)];
  // Two pairs can make one token: the second gets a merge, not a token.
  const auto known = by_text_.find(token);
  if (known != by_text_.end() && known->second < reserved_) {
    pairs_.erase(pair);
    return;
  }
  const int32_t merged = known != by_text_.end() ? known->second : add_token(token, chars);
  result_.merges.push_back(pair);
  const std::vector<uint32_t> words = std::move(pairs_[pair].words);
  risen_.clear();
  uint32_t last = UINT32_MAX;
  for (const uint32_t word : words) {
    if (word != last) merge_in(word, pair, merged);
    last = word;
  }
  pairs_.erase(pair);
  std::sort(risen_.begin(), risen_.end());
  risen_.erase(std::unique(risen_.begin(), risen_.end()), risen_.end());
  for (const Pair& p : risen_) {
    if (const auto at = pairs_.find(p); at != pairs_.end()) heap_.push({at->second.count, p});
  }
}

void Trainer::merge_in(uint32_t index, Pair pair, int32_t merged) {
  Word& word = words_[index];
  int32_t* const s = symbols_.data() + word.begin;
  uint32_t n = word.length;
  for (uint32_t i = 0; i + 1 < n; ++i) {
    if (s[i] != pair.first || s[i + 1] != pair.second) continue;
    if (i > 0) {
      change({s[i - 1], pair.first}, -word.count, index);
      change({s[i - 1], merged}, word.count, index);
    }
    if (i + 2 < n) {
      change({pair.second, s[i + 2]}, -word.count, index);
      change({merged, s[i + 2]}, word.count, index);
    }
    s[i] = merged;
    std::copy(s + i + 2, s + n, s + i + 1);
    --n;
  }
  word.length = n;
}

}  // namespace

TrainedBpe train_bpe(const std::vector<WordCount>& words, const BpeTrainOptions& options) {
  return Trainer(words, options).train();
}

}  // namespace tephra

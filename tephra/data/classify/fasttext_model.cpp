// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/classify/fasttext_model.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"

namespace tephra {
namespace {

constexpr std::string_view kEnd = "</s>";
constexpr std::string_view kLabel = "__label__";
constexpr int kHierarchical = 1, kSoftmax = 3;
constexpr uint32_t kHashStart = 2166136261u, kHashFactor = 16777619u;

constexpr size_t kKnownWords = 8192, kLongestKnown = 32;

bool is_separator(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\v' || c == '\f' || c == '\0';
}

template <class Use>
void each_word(std::string_view text, const Use& use) {
  for (size_t at = 0; at < text.size();) {
    while (at < text.size() && is_separator(text[at])) ++at;
    size_t end = at;
    while (end < text.size() && !is_separator(text[end])) ++end;
    if (end > at) use(text.substr(at, end - at));
    at = end;
  }
  use(kEnd);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Of one-vs-all, fastText looks it up in a table of steps: its probabilities are those.
float sigmoid_step(float x) {
  constexpr float kMost = 8;
  constexpr int kSteps = 512;
  if (x < -kMost) return 0;
  if (x > kMost) return 1;
  const auto step = static_cast<int>((x + kMost) * kSteps / kMost / 2);
  return static_cast<float>(sigmoid(static_cast<double>(step) * 2 * kMost / kSteps - kMost));
}

// FNV-1a, with a sign: the format has it so.
uint32_t hash_step(uint32_t h, char c) {
  return (h ^ static_cast<uint32_t>(static_cast<int8_t>(c))) * kHashFactor;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// In registers.
template <size_t kDim>
void add_fixed_rows(const float* matrix, std::span<const int32_t> rows, float* sum) {
  float total[kDim];
  std::copy_n(sum, kDim, total);
  for (const int32_t row : rows) {
    const float* values = matrix + static_cast<size_t>(row) * kDim;
    for (size_t d = 0; d < kDim; ++d) total[d] += values[d];
  }
  std::copy_n(total, kDim, sum);
}

void add_rows(const float* matrix, std::span<const int32_t> rows, size_t dim, float* sum) {
  if (dim == 16) return add_fixed_rows<16>(matrix, rows, sum);
  for (const int32_t row : rows) {
    const float* values = matrix + static_cast<size_t>(row) * dim;
    for (size_t d = 0; d < dim; ++d) sum[d] += values[d];
  }
}

}  // namespace

uint32_t fasttext_hash(std::string_view word) {
  uint32_t h = kHashStart;
  for (const char c : word) h = hash_step(h, c);
  return h;
}

// Huffman's: the two rarest nodes are joined again and again. Counts fall, so leaves are taken from
// the end and joined nodes from their beginning.
LabelTree::LabelTree(const std::vector<int64_t>& counts) {
  const auto labels = static_cast<int32_t>(counts.size());
  nodes.resize(static_cast<size_t>(std::max(1, 2 * labels - 1)));
  std::vector<int64_t> weight(nodes.size(), int64_t{1000000000000000});
  std::copy(counts.begin(), counts.end(), weight.begin());
  int32_t leaf = labels - 1, node = labels;
  for (int32_t i = labels; i < 2 * labels - 1; ++i) {
    int32_t least[2];
    for (int32_t& each : least) {
      const bool take_leaf =
          leaf >= 0 && weight[static_cast<size_t>(leaf)] < weight[static_cast<size_t>(node)];
      each = take_leaf ? leaf-- : node++;
    }
    nodes[static_cast<size_t>(i)] = {least[0], least[1]};
    weight[static_cast<size_t>(i)] =
        weight[static_cast<size_t>(least[0])] + weight[static_cast<size_t>(least[1])];
  }
}

KeptBuckets::KeptBuckets(std::vector<std::pair<int32_t, int32_t>> kept, int32_t buckets) {
  std::sort(kept.begin(), kept.end());
  bits_.resize(static_cast<size_t>(buckets) / 64 + 1);
  before_.resize(bits_.size());
  for (const auto& [bucket, row] : kept) {
    bits_[static_cast<size_t>(bucket) / 64] |= uint64_t{1} << bucket % 64;
    rows_.push_back(row);
  }
  for (size_t i = 1; i < bits_.size(); ++i) {
    before_[i] = before_[i - 1] + static_cast<uint32_t>(std::popcount(bits_[i - 1]));
  }
}

FastTextModel::FastTextModel(const FastTextArgs& given, std::vector<FastTextEntry> entries,
                             std::optional<KeptBuckets> kept)
    : args(given), entries_(std::move(entries)), kept_(std::move(kept)) {
  index();
  const auto dim = static_cast<size_t>(args.dim);
  const size_t buckets = kept_ ? kept_->size() : static_cast<size_t>(args.bucket);
  input.resize((static_cast<size_t>(words_) + buckets) * dim);
  output.resize(labels_.size() * dim);
}

void FastTextModel::index() {
  std::vector<int64_t> counts;
  tokens_ = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const FastTextEntry& entry = entries_[i];
    ids_[entry.word] = static_cast<int32_t>(i);
    tokens_ += entry.count;
    if (!entry.label) {
      ++words_;
      continue;
    }
    labels_.push_back(entry.word.starts_with(kLabel) ? entry.word.substr(kLabel.size())
                                                     : entry.word);
    counts.push_back(entry.count);
  }
  if (args.loss == kHierarchical) tree_.emplace_back(counts);
}

void FastTextModel::add_bucket(uint32_t bucket, std::vector<int32_t>& rows) const {
  const int32_t row = kept_ ? kept_->row(bucket) : static_cast<int32_t>(bucket);
  if (row >= 0) rows.push_back(words_ + row);
}

// Character n-grams of "<word>"; the hash of a longer one goes on from the shorter.
void FastTextModel::add_subwords(std::string_view word, Scratch& scratch) const {
  std::string& text = scratch.word;
  text.assign(1, '<');
  text += word;
  text += '>';
  const auto buckets = static_cast<uint64_t>(args.bucket);
  // h mod buckets by two products instead of a division (Lemire et al., 2019); exact for 32 bits.
  const uint64_t inverse = UINT64_MAX / buckets + 1;
  const auto bucket_of = [&](uint32_t h) {
    return static_cast<uint32_t>((static_cast<unsigned __int128>(inverse * h) * buckets) >> 64);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (continues(text[i])) continue;
    uint32_t h = kHashStart;
    size_t end = i;
    for (int32_t n = 1; end < text.size() && n <= args.maxn; ++n) {
      do h = hash_step(h, text[end++]);
      while (end < text.size() && continues(text[end]));
      if (n < args.minn || (n == 1 && (i == 0 || end == text.size()))) continue;
      add_bucket(bucket_of(h), scratch.rows);
    }
  }
}

// The rows of a word; false for a label within the text, which has none.
bool FastTextModel::add_word(std::string_view word, Scratch& scratch) const {
  const auto found = ids_.find(word);
  if (found != ids_.end()) {
    if (entries_[static_cast<size_t>(found->second)].label) return false;
    scratch.rows.push_back(found->second);
  }
  if (args.maxn > 0 && args.bucket > 0 && word != kEnd) add_subwords(word, scratch);
  return true;
}

void FastTextModel::add_word_ngrams(Scratch& scratch) const {
  if (args.bucket <= 0) return;
  for (size_t i = 0; i < scratch.hashes.size(); ++i) {
    auto h = static_cast<uint64_t>(scratch.hashes[i]);
    const size_t last = std::min(scratch.hashes.size(), i + static_cast<size_t>(args.word_ngrams));
    for (size_t j = i + 1; j < last; ++j) {
      h = h * 116049371u + static_cast<uint64_t>(scratch.hashes[j]);
      add_bucket(static_cast<uint32_t>(h % static_cast<uint64_t>(args.bucket)), scratch.rows);
    }
  }
}

void FastTextModel::rows_of(std::string_view text, Scratch& scratch) const {
  scratch.rows.clear();
  scratch.hashes.clear();
  each_word(text, [&](std::string_view word) {
    if (add_word(word, scratch)) {
      scratch.hashes.push_back(static_cast<int32_t>(fasttext_hash(word)));
    }
  });
  add_word_ngrams(scratch);
}

// What a word adds to a text is the same wherever it stands, so it is kept until another takes its
// place. The sum is made anew in the same order: what is kept changes no bit.
int32_t FastTextModel::known_word(std::string_view word, Scratch& scratch) const {
  const auto dim = static_cast<size_t>(args.dim);
  if (scratch.known.empty()) {
    scratch.known.resize(kKnownWords + 1);  // the last one is for long words, and never found
    scratch.sums.resize(scratch.known.size() * dim);
  }
  const bool keep = word.size() <= kLongestKnown;
  const size_t place = keep ? xxh3(word) % kKnownWords : kKnownWords;
  Scratch::Known& known = scratch.known[place];
  if (keep && known.word == word) return static_cast<int32_t>(place);
  known.word = keep ? word : std::string_view();
  known.hash = static_cast<int32_t>(fasttext_hash(word));
  scratch.rows.clear();
  known.is_label = !add_word(word, scratch);
  known.rows = scratch.rows.size();
  float* sum = scratch.sums.data() + place * dim;
  std::fill_n(sum, dim, 0.0f);
  add_rows(input.data(), scratch.rows, dim, sum);
  return static_cast<int32_t>(place);
}

// The rows of a text, added up; returns how many there are.
size_t FastTextModel::add_text(std::string_view text, Scratch& scratch) const {
  const auto dim = static_cast<size_t>(args.dim);
  scratch.hidden.assign(dim, 0);
  scratch.hashes.clear();
  size_t count = 0;
  each_word(text, [&](std::string_view word) {
    const int32_t place = known_word(word, scratch);
    const Scratch::Known& known = scratch.known[static_cast<size_t>(place)];
    if (known.is_label) return;
    scratch.hashes.push_back(known.hash);
    add_rows(scratch.sums.data(), std::span(&place, 1), dim, scratch.hidden.data());
    count += known.rows;
  });
  scratch.rows.clear();
  add_word_ngrams(scratch);
  add_rows(input.data(), scratch.rows, dim, scratch.hidden.data());
  return count + scratch.rows.size();
}

// False where a text has no rows: all are then 0.
bool FastTextModel::all_probabilities(std::string_view text, Scratch& scratch) const {
  const auto dim = static_cast<size_t>(args.dim);
  scratch.output.assign(labels_.size(), 0);
  const size_t count = add_text(text, scratch);
  if (count == 0) return false;
  for (float& value : scratch.hidden) value /= static_cast<float>(count);
  const auto dot = [&](size_t row) {
    float sum = 0;
    for (size_t d = 0; d < dim; ++d) sum += output[row * dim + d] * scratch.hidden[d];
    return sum;
  };
  if (!tree_.empty()) {
    const auto& nodes = tree_[0].nodes;
    std::vector<double> chance(nodes.size());
    chance.back() = 1;
    for (size_t n = nodes.size(); n-- > labels_.size();) {
      const double right = sigmoid(dot(n - labels_.size()));
      chance[static_cast<size_t>(nodes[n].left)] = chance[n] * (1 - right);
      chance[static_cast<size_t>(nodes[n].right)] = chance[n] * right;
    }
    for (size_t i = 0; i < labels_.size(); ++i) scratch.output[i] = static_cast<float>(chance[i]);
    return true;
  }
  float most = -INFINITY, sum = 0;
  for (size_t i = 0; i < labels_.size(); ++i) most = std::max(most, scratch.output[i] = dot(i));
  for (float& value : scratch.output) {
    value = args.loss == kSoftmax ? std::exp(value - most) : sigmoid_step(value);
    sum += value;
  }
  if (args.loss != kSoftmax) return true;
  for (float& value : scratch.output) value /= sum;
  return true;
}

FastTextModel::Prediction FastTextModel::predict(std::string_view text, Scratch& scratch) const {
  if (!all_probabilities(text, scratch)) return {};
  const auto best = std::max_element(scratch.output.begin(), scratch.output.end());
  return {static_cast<size_t>(best - scratch.output.begin()), *best};
}

double FastTextModel::probability(std::string_view text, size_t label, Scratch& scratch) const {
  all_probabilities(text, scratch);
  return scratch.output[label];
}

}  // namespace tephra

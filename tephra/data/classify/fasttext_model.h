// SPDX-License-Identifier: Apache-2.0
// Linear text classifiers in fastText's binary format (Joulin et al., 2016): .bin files are read
// and written, quantised .ftz files read. Softmax, one-vs-all and hierarchical softmax.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tephra/base/files.h"

namespace tephra {

struct FastTextArgs {
  int32_t dim = 16;
  int32_t ws = 5, epoch = 5, min_count = 1, neg = 5;
  int32_t word_ngrams = 2;
  int32_t loss = 3;   // 1 hierarchical softmax, 3 softmax, 4 one-vs-all
  int32_t model = 3;  // supervised
  int32_t bucket = 100000;
  int32_t minn = 0, maxn = 0;  // characters of subwords; 0: none
  int32_t lr_update_rate = 100;
  double t = 1e-4;
};

struct FastTextEntry {
  std::string word;
  int64_t count = 0;
  bool label = false;
};

// A binary tree of labels by their frequency, for hierarchical softmax.
struct LabelTree {
  struct Node {
    int32_t left = -1, right = -1;
  };
  std::vector<Node> nodes;  // labels first, the root last

  explicit LabelTree(const std::vector<int64_t>& counts);
};

// Which buckets of n-grams a pruned model kept, and their rows: a bit each, so that it stays in
// cache where a table of two million would not.
class KeptBuckets {
 public:
  KeptBuckets() = default;
  // Pairs of a bucket and its row after the words.
  KeptBuckets(std::vector<std::pair<int32_t, int32_t>> kept, int32_t buckets);

  size_t size() const { return rows_.size(); }
  int32_t row(uint32_t bucket) const {  // -1: not kept
    const uint64_t word = bits_[bucket / 64], below = (uint64_t{1} << bucket % 64) - 1;
    if ((word >> bucket % 64 & 1) == 0) return -1;
    return rows_[before_[bucket / 64] + static_cast<uint32_t>(std::popcount(word & below))];
  }

 private:
  std::vector<uint64_t> bits_;
  std::vector<uint32_t> before_;  // kept ones before each word of bits
  std::vector<int32_t> rows_;
};

class FastTextModel {
 public:
  // Fault::data names what is wrong with a file.
  static FastTextModel load(const Path& path);
  void save(const Path& path) const;

  // Moved only: the index points at the words.
  FastTextModel(FastTextModel&&) = default;
  FastTextModel& operator=(FastTextModel&&) = default;
  FastTextModel(const FastTextModel&) = delete;
  FastTextModel& operator=(const FastTextModel&) = delete;

  // Words first, then labels, each by falling frequency. Of a pruned model, with its buckets.
  FastTextModel(const FastTextArgs& args, std::vector<FastTextEntry> entries,
                std::optional<KeptBuckets> kept = std::nullopt);

  struct Prediction {
    size_t label = 0;
    double probability = 0;
  };
  // Memory of one thread, for one model that does not change.
  struct Scratch {
    // A word that was met: few make up most of a text.
    struct Known {
      std::string word;
      size_t rows = 0;
      int32_t hash = 0;
      bool is_label = false;
    };

    std::vector<int32_t> rows;
    std::vector<int32_t> hashes;
    std::vector<float> hidden, output;
    std::string word;
    std::vector<Known> known;  // each at a place that follows from it
    std::vector<float> sums;   // of the rows of each
  };
  // The most likely label of a text, newlines taken for spaces. An empty text has none: {0, 0}.
  Prediction predict(std::string_view text, Scratch& scratch) const;
  // The probability of one label.
  double probability(std::string_view text, size_t label, Scratch& scratch) const;

  const std::vector<std::string>& labels() const { return labels_; }  // without "__label__"

  // The rows of the input matrix that a text averages.
  void rows_of(std::string_view text, Scratch& scratch) const;

  FastTextArgs args;
  // [words + bucket (those that were kept), dim], [labels, dim]; quantised ones as floats
  std::vector<float> input, output;

 private:
  void index();
  void add_subwords(std::string_view word, Scratch& scratch) const;
  void add_bucket(uint32_t bucket, std::vector<int32_t>& rows) const;
  bool add_word(std::string_view word, Scratch& scratch) const;
  void add_word_ngrams(Scratch& scratch) const;
  int32_t known_word(std::string_view word, Scratch& scratch) const;
  size_t add_text(std::string_view text, Scratch& scratch) const;
  bool all_probabilities(std::string_view text, Scratch& scratch) const;

  std::vector<FastTextEntry> entries_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string_view, int32_t> ids_;  // into entries_
  int32_t words_ = 0;
  int64_t tokens_ = 0;
  std::vector<LabelTree> tree_;  // one, or none
  std::optional<KeptBuckets> kept_;
};

uint32_t fasttext_hash(std::string_view word);

}  // namespace tephra

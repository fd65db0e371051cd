// SPDX-License-Identifier: Apache-2.0
// Linear text classifiers in fastText's binary format (Joulin et al., 2016): read, written,
// applied. Softmax, one-vs-all and hierarchical softmax; not its quantised .ftz files.
#pragma once

#include <cstdint>
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

  // Words first, then labels, each by falling frequency.
  FastTextModel(const FastTextArgs& args, std::vector<FastTextEntry> entries);

  struct Prediction {
    size_t label = 0;
    double probability = 0;
  };
  // Memory of one thread.
  struct Scratch {
    std::vector<int32_t> rows;
    std::vector<int32_t> hashes;
    std::vector<float> hidden, output;
  };
  // The most likely label of a text, newlines taken for spaces. An empty text has none: {0, 0}.
  Prediction predict(std::string_view text, Scratch& scratch) const;
  // The probability of one label.
  double probability(std::string_view text, size_t label, Scratch& scratch) const;

  const std::vector<std::string>& labels() const { return labels_; }  // without "__label__"

  // The rows of the input matrix that a text averages.
  void rows_of(std::string_view text, Scratch& scratch) const;

  FastTextArgs args;
  std::vector<float> input, output;  // [words + bucket, dim], [labels, dim]

 private:
  void index();
  void add_subwords(std::string_view word, std::vector<int32_t>& rows) const;
  void all_probabilities(std::string_view text, Scratch& scratch) const;

  std::vector<FastTextEntry> entries_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string_view, int32_t> ids_;  // into entries_
  int32_t words_ = 0;
  int64_t tokens_ = 0;
  std::vector<LabelTree> tree_;  // one, or none
};

uint32_t fasttext_hash(std::string_view word);

}  // namespace tephra

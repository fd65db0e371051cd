// SPDX-License-Identifier: Apache-2.0
// Trains a classifier in fastText's form: stochastic gradient descent on softmax, the same model
// for the same texts and settings.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/data/classify/fasttext_model.h"

namespace tephra {

struct LabelledText {
  std::string label;
  std::string text;
};

struct FastTextTraining {
  int64_t dim = 16;
  int64_t word_ngrams = 2;
  int64_t buckets = 100000;
  int64_t min_count = 2;
  int64_t epochs = 5;
  double learning_rate = 0.5;
  uint64_t seed = 0;
};

FastTextModel train_fasttext(const std::vector<LabelledText>& texts, const FastTextTraining& how);

// Share of texts whose most likely label is theirs.
double accuracy(const FastTextModel& model, const std::vector<LabelledText>& texts);

}  // namespace tephra

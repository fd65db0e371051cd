// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/classify/fasttext_train.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tephra/base/error.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/core/rng.h"

namespace tephra {
namespace {

void count_words(std::string_view text, std::map<std::string, int64_t, std::less<>>& counts) {
  constexpr std::string_view kSpaces(" \n\r\t\v\f\0", 7);
  for (size_t at = 0; (at = text.find_first_not_of(kSpaces, at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (const auto found = counts.find(word); found != counts.end()) {
      ++found->second;
    } else {
      counts.emplace(word, 1);
    }
    at = end;
  }
}

std::vector<FastTextEntry> make_dictionary(const std::vector<LabelledText>& texts,
                                           int64_t min_count) {
  std::map<std::string, int64_t, std::less<>> words, labels;
  for (const LabelledText& each : texts) {
    count_words(each.text, words);
    ++labels["__label__" + each.label];
  }
  words["</s>"] = static_cast<int64_t>(texts.size());
  require(labels.size() >= 2, "expected texts of at least two labels, got {}", labels.size());
  std::vector<FastTextEntry> entries;
  for (const auto& [word, count] : words) {
    if (count >= min_count && !word.starts_with("__label__"))
      entries.push_back({word, count, false});
  }
  for (const auto& [label, count] : labels) entries.push_back({label, count, true});
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.label != b.label ? b.label : a.count > b.count;
  });
  return entries;
}

class Trainer {
 public:
  explicit Trainer(FastTextModel& model)
      : model_(model), dim_(static_cast<size_t>(model.args.dim)), gradient_(dim_) {}

  void step(std::string_view text, size_t label, double rate) {
    model_.rows_of(text, scratch_);
    if (scratch_.rows.empty()) return;
    average_rows();
    softmax();
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    for (size_t k = 0; k < scratch_.output.size(); ++k) {
      const auto alpha = static_cast<float>(rate * ((k == label ? 1.0 : 0.0) - scratch_.output[k]));
      float* row = model_.output.data() + k * dim_;
      for (size_t d = 0; d < dim_; ++d) {
        gradient_[d] += alpha * row[d];
        row[d] += alpha * scratch_.hidden[d];
      }
    }
    const float share = 1.0f / static_cast<float>(scratch_.rows.size());
    for (const int32_t r : scratch_.rows) {
      float* row = model_.input.data() + static_cast<size_t>(r) * dim_;
      for (size_t d = 0; d < dim_; ++d) row[d] += share * gradient_[d];
    }
  }

 private:
  void average_rows() {
    scratch_.hidden.assign(dim_, 0);
    for (const int32_t r : scratch_.rows) {
      const float* row = model_.input.data() + static_cast<size_t>(r) * dim_;
      for (size_t d = 0; d < dim_; ++d) scratch_.hidden[d] += row[d];
    }
    for (float& value : scratch_.hidden) value /= static_cast<float>(scratch_.rows.size());
  }

  void softmax() {
    scratch_.output.assign(model_.labels().size(), 0);
    float most = -INFINITY, sum = 0;
    for (size_t k = 0; k < scratch_.output.size(); ++k) {
      for (size_t d = 0; d < dim_; ++d) {
        scratch_.output[k] += model_.output[k * dim_ + d] * scratch_.hidden[d];
      }
      most = std::max(most, scratch_.output[k]);
    }
    for (float& value : scratch_.output) sum += value = std::exp(value - most);
    for (float& value : scratch_.output) value /= sum;
  }

  FastTextModel& model_;
  size_t dim_;
  std::vector<float> gradient_;
  FastTextModel::Scratch scratch_;
};

size_t label_index(const FastTextModel& model, const std::string& label) {
  const auto found = std::find(model.labels().begin(), model.labels().end(), label);
  return static_cast<size_t>(found - model.labels().begin());
}

}  // namespace

FastTextModel train_fasttext(const std::vector<LabelledText>& texts, const FastTextTraining& how) {
  FastTextArgs args;
  args.dim = static_cast<int32_t>(how.dim);
  args.word_ngrams = static_cast<int32_t>(how.word_ngrams);
  args.bucket = how.word_ngrams > 1 ? static_cast<int32_t>(how.buckets) : 0;
  args.min_count = static_cast<int32_t>(how.min_count);
  args.epoch = static_cast<int32_t>(how.epochs);
  FastTextModel model(args, make_dictionary(texts, how.min_count));
  const RngKey key{how.seed, stream_of("fasttext"), 0};
  for (size_t i = 0; i < model.input.size(); ++i) {
    model.input[i] = static_cast<float>((2 * uniform(key, i) - 1) / static_cast<double>(how.dim));
  }
  Trainer trainer(model);
  const auto count = static_cast<int64_t>(texts.size());
  Progress progress("train", how.epochs * count, "texts");
  for (int64_t epoch = 0; epoch < how.epochs; ++epoch) {
    std::vector<std::pair<double, size_t>> order;
    const RngKey shuffle{how.seed, stream_of("fasttext order"), static_cast<uint32_t>(epoch)};
    for (size_t i = 0; i < texts.size(); ++i) order.emplace_back(uniform(shuffle, i), i);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count; ++i) {
      const LabelledText& each = texts[order[static_cast<size_t>(i)].second];
      const double done =
          static_cast<double>(epoch * count + i) / static_cast<double>(how.epochs * count);
      trainer.step(each.text, label_index(model, each.label), how.learning_rate * (1 - done));
      progress.add(1);
      if (i % 1000 == 0) stop_if_interrupted();
    }
  }
  return model;
}

double accuracy(const FastTextModel& model, const std::vector<LabelledText>& texts) {
  FastTextModel::Scratch scratch;
  int64_t right = 0;
  for (const LabelledText& each : texts) {
    right += model.labels()[model.predict(each.text, scratch).label] == each.label;
  }
  return texts.empty() ? 0 : static_cast<double>(right) / static_cast<double>(texts.size());
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Language ID: its speed, and how often a sample of a document gets the label of the whole.
#include <random>

#include "tephra/base/format.h"
#include "tephra/cli/bench_data_rows.h"
#include "tephra/data/classify/classify_corpus.h"

namespace tephra {
namespace {

constexpr int64_t kSampleBytes = 2048;

// The shape of fastText's lid.176.ftz, with made weights: good for timing only.
FastTextModel made_model() {
  FastTextArgs args;
  args.dim = 16;
  args.word_ngrams = 1;
  args.loss = 1;
  args.minn = 2;
  args.maxn = 4;
  args.bucket = 50000;
  std::vector<FastTextEntry> entries = {{"</s>", 1000, false}};
  for (int64_t i = 0; i < 176; ++i) {
    entries.push_back({format("__label__{}", i), 1000 - i, true});
  }
  FastTextModel model(args, std::move(entries));
  std::mt19937 random(1);
  for (float& value : model.input) value = static_cast<float>(random() % 2001) * 1e-3f - 1;
  for (float& value : model.output) value = static_cast<float>(random() % 2001) * 1e-3f - 1;
  return model;
}

double agreement(const FastTextModel& model, const std::vector<std::string>& texts) {
  FastTextModel::Scratch scratch;
  int64_t same = 0;
  for (const std::string& text : texts) {
    same += predict_by_sample(model, text, kSampleBytes, scratch).label ==
            model.predict(text, scratch).label;
  }
  return 100 * static_cast<double>(same) / static_cast<double>(texts.size());
}

}  // namespace

void bench_data_labels(DataBenchRows& rows) {
  if (!rows.wanted("language")) return;
  const DataBenchOptions& options = rows.options();
  const bool real = !options.language_model.empty();
  const FastTextModel model = real ? FastTextModel::load(options.language_model) : made_model();
  FastTextModel::Scratch scratch;
  const auto rate_of = [&](const std::vector<std::string>& texts) {
    double bytes = 0;
    for (const std::string& text : texts) bytes += static_cast<double>(text.size());
    return rows.best(bytes * 1e-6, [&] {
      for (const std::string& text : texts) {
        predict_by_sample(model, text, kSampleBytes, scratch);
      }
    });
  };
  rows.add(
      {8, real ? "language ID" : "language ID, a made model", rate_of(options.texts), "MB/s", 100});
  if (!real) return;
  const bool many = !options.languages.empty();
  if (many) rows.add({0, "language ID, many languages", rate_of(options.languages), "MB/s", {}});
  rows.add({8,
            many ? "language ID, sample as whole, many languages" : "language ID, sample as whole",
            agreement(model, many ? options.languages : options.texts), "%", 99});
}

}  // namespace tephra

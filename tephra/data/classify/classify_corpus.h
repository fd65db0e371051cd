// SPDX-License-Identifier: Apache-2.0
// Gives documents a label by a classifier, and keeps those of wanted ones.
#pragma once

#include <memory>

#include "tephra/data/classify/fasttext_model.h"
#include "tephra/data/corpus/stage.h"

namespace tephra {

struct ClassifyOptions {
  std::string text_field = "text";
  std::string name = "label";     // fields NAME and NAME_score are added
  std::vector<std::string> keep;  // labels; empty: all
  double least = 0;               // probability of the wanted label
  int64_t sample_bytes = 2048;    // looked at, as in predict_by_sample
};

// At most `bytes`, and spaces between: stretches at equal distances, from words on.
std::string sampled_text(std::string_view text, int64_t bytes);

// By a sample of so many bytes (0: by all), or by the whole text where that leaves doubt.
FastTextModel::Prediction predict_by_sample(const FastTextModel& model, std::string_view text,
                                            int64_t bytes, FastTextModel::Scratch& scratch);

StageJob classify_job(const std::shared_ptr<const FastTextModel>& model,
                      const ClassifyOptions& options, StageSettings stage);

StageRun classify_corpus(std::span<const CorpusFile> files, const FastTextModel& model,
                         const ClassifyOptions& options, StageSettings stage);

}  // namespace tephra

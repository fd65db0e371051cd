// SPDX-License-Identifier: Apache-2.0
// Filters a corpus: kept documents to OUT/documents, every value of every document to OUT/values,
// counts and samples of what was dropped to OUT/report.json.
#pragma once

#include "tephra/data/corpus/stage.h"
#include "tephra/data/filter/preset.h"

namespace tephra {

struct FilterOptions {
  FilterChoice choice;
  std::string text_field = "text";
  bool keep_values = true;
  bool keep_dropped = false;  // OUT/dropped holds them, with the rules that dropped them
};

// `stage` gives the output, errors and the shard; its streams and settings are set here.
StageJob filter_job(const FilterOptions& options, StageSettings stage);
StageRun filter_corpus(std::span<const CorpusFile> files, const FilterOptions& options,
                       StageSettings stage);

}  // namespace tephra

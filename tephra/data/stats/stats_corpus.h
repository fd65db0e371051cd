// SPDX-License-Identifier: Apache-2.0
// Counts a corpus: documents, bytes, characters, words and, with a tokenizer, tokens, by source,
// and how long its documents are.
#pragma once

#include "tephra/data/corpus/stage.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct StatsOptions {
  std::string text_field = "text";
  const Tokenizer* tokenizer = nullptr;  // null: tokens are not counted
};

// Writes OUT/report.json.
StageRun stats_corpus(std::span<const CorpusFile> files, const StatsOptions& options,
                      StageSettings stage);

}  // namespace tephra

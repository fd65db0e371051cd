// SPDX-License-Identifier: Apache-2.0
// Removes lines, or paragraphs, that stand somewhere earlier in the corpus: headers, menus,
// notices.
#pragma once

#include "tephra/data/corpus/stage.h"

namespace tephra {

struct LineDedupOptions {
  std::string text_field = "text";
  bool paragraphs = false;   // pieces between blank lines instead of lines
  int64_t least_chars = 20;  // shorter pieces always stay
  int64_t memory_bytes = int64_t{4} << 30;
};

// The first of equal pieces stays (apart from spaces around them). Documents of which nothing is
// left go, too. OUT/documents, and OUT/report.json with samples of what is removed.
StageRun dedup_lines(std::span<const CorpusFile> files, const LineDedupOptions& options,
                     StageSettings stage);

}  // namespace tephra

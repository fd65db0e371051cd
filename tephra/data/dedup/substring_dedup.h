// SPDX-License-Identifier: Apache-2.0
// Removes stretches of text that stand somewhere else in the corpus, too, wherever they begin: what
// line and paragraph deduplication cannot see.
#pragma once

#include "tephra/data/corpus/stage.h"

namespace tephra {

struct SubstringDedupOptions {
  std::string text_field = "text";
  int64_t least_bytes = 200;  // shorter repeats stay
  bool remove_all = false;    // also the first of equal stretches
  int64_t memory_bytes = int64_t{4} << 30;
};

// Needs memory for five bytes for each of a part of the corpus, beside a bit for each byte of all
// of it and 16 bytes a document. A corpus above that is compared part with part, up to a limit;
// Fault::usage says what would do. Documents of which nothing is left are removed.
StageRun dedup_substrings(std::span<const CorpusFile> files, const SubstringDedupOptions& options,
                          StageSettings stage);

}  // namespace tephra

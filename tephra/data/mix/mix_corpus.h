// SPDX-License-Identifier: Apache-2.0
// A corpus in chosen proportions: of each source a share of the whole, by leaving documents out or
// by repeating them.
#pragma once

#include <map>

#include "tephra/data/corpus/stage.h"

namespace tephra {

struct MixOptions {
  std::string text_field = "text";
  std::map<std::string, double> weights;  // of every source; only their ratios count
  int64_t bytes =
      0;  // of text that comes out, about; 0: as much as the scarcest source allows once
  double max_repeats = 4;  // more of a source is an error
  uint64_t seed = 0;
};

// Each "SOURCE=NUMBER", none twice; Fault::usage.
std::map<std::string, double> parse_weights(std::span<const std::string> settings);

// How often each source is used on average, from its bytes of text.
std::map<std::string, double> mix_repeats(const MixOptions& options,
                                          const std::map<std::string, int64_t>& source_bytes);

// How often this document comes out: the average rounded down or up, by a hash of its id.
int64_t copies_of(std::string_view id, double repeats, uint64_t seed);

// Fault::usage unless the weights are those of the files' sources.
void check_mix(std::span<const CorpusFile> files, const MixOptions& options);

StageRun mix_corpus(std::span<const CorpusFile> files, const MixOptions& options,
                    StageSettings stage);

// DCLM, FineWeb-Edu, Zyda-1 and Dolma-CC as Zyda-2 weighs them.
const std::map<std::string, double>& zyda2_weights();

}  // namespace tephra

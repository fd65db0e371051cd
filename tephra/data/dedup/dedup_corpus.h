// SPDX-License-Identifier: Apache-2.0
// Removes documents that are nearly the same as another one: signatures, clusters by shared bands,
// a comparison of each member with the one that stays, and the output without what was removed.
#pragma once

#include "tephra/data/corpus/stage.h"
#include "tephra/data/dedup/index_writer.h"
#include "tephra/data/dedup/signer.h"
#include "tephra/data/dedup/survivors.h"

namespace tephra {

struct DedupOptions {
  SignaturePreset preset;
  std::string text_field = "text";
  std::string score_field = "score";  // a number, for Keep::best
  Keep keep = Keep::first;
  std::vector<std::string> rank;  // sources, the best first; those not named are equal and last
  std::vector<std::string> references;  // sources that are only compared with, not written
  bool across_sources = false;
  bool verify = true;
  std::optional<double> similarity;  // default: the preset's
  double max_source_loss = 0.9;      // share of a source's documents; more is an error
  int64_t memory_bytes = int64_t{4} << 30;
  std::optional<Path> against_index;  // what resembles one of its documents goes
  std::optional<Path> save_index;     // the documents that are kept are added to it
  IndexSettings index;                // of an index that is made
};

// Fault::usage for a source that the files do not have, or an index that cannot be used: what
// dedup_corpus would say when it begins.
void check_dedup(std::span<const CorpusFile> files, const DedupOptions& options);

// Its first part, which a pass over the documents before it can do: dedup_corpus then goes on from
// what it left.
StageJob dedup_signature_job(const DedupOptions& options, StageSettings stage);

// `stage` gives the output, errors and the shard. The run of the last stage that could be done: of
// a shard, the next one needs all shards.
StageRun dedup_corpus(std::span<const CorpusFile> files, const DedupOptions& options,
                      StageSettings stage);

}  // namespace tephra

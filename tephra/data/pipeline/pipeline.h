// SPDX-License-Identifier: Apache-2.0
// Stages one after another, as a TOML file describes them: from raw documents to token shards.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/config.h"
#include "tephra/base/json.h"
#include "tephra/data/corpus/stage.h"
#include "tephra/data/pipeline/stage_options.h"
#include "tephra/data/tokenize_report.h"

namespace tephra {

// Of its settings only those of its kind are read.
struct PipelineStage {
  std::string kind;
  std::string name;  // of its folder; default: its kind
  std::string output_format = "jsonl";
  FilterSettings filter;
  DedupSettings dedup;
  ClassifySettings classify;
  DecontaminateSettings decontaminate;
  MixSettings mix;

  void fields(ConfigFields& f);
};

// In the order of the docs.
std::vector<std::string> pipeline_kinds();

struct PipelineTokens {
  std::string tokenizer;
  std::string out;
  bool append_eos = true;
  bool prepend_bos = false;

  void fields(ConfigFields& f);
};

struct PipelineConfig {
  std::vector<std::string> inputs;
  std::string out;
  std::string text_field = "text";
  std::string on_error = "stop";
  std::string max_document = "256MB";
  std::string memory = "4GiB";
  int64_t level = 3;
  int64_t samples = 5;
  bool keep_stages = false;
  std::vector<PipelineStage> stages;
  std::optional<PipelineTokens> tokens;

  void fields(ConfigFields& f);
  void stage_fields(ConfigFields& f);  // those that decide what stages leave
};

// docs/data-config.md.
std::string pipeline_reference();

struct PipelineResult {
  bool first = true;                                 // else a rank to which the rest says nothing
  std::vector<std::pair<std::string, Json>> stages;  // folder name and counts
  TokenizeReport tokens;                             // of the token shard
};

// Stages that look at each document on its own, and the signatures of a deduplication after them,
// are done in one pass. What stages leave is the same as one by one, but only the last one's
// documents stay (and those of one with an index, or as Parquet).
// All that can be checked is checked before the first stage begins: settings, files that stages
// read, sources that they name, the tokenizer.
// Stages that were done by an earlier run with the same config are not done again; with another
// config for one, or for one before it, Fault::usage unless `overwrite`.
PipelineResult run_pipeline(const PipelineConfig& config, bool overwrite);

}  // namespace tephra

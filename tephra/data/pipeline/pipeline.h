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

namespace tephra {

struct PipelineStage {
  std::string kind;
  std::string name;  // of its folder; default: its kind
  std::string output_format = "jsonl";
  // filter
  std::vector<std::string> presets = {"zyda1"};
  std::string mode = "fixed";
  std::optional<std::string> word_lists;
  std::vector<std::string> thresholds;
  bool keep_values = true;
  // dedup
  std::string unit = "document";
  int64_t least_bytes = 200;
  bool remove_all = false;
  std::string signature = "native";
  std::optional<double> similarity;
  std::string keep = "first";
  std::string score_field = "score";
  std::vector<std::string> rank, references;
  bool across_sources = false;
  bool verify = true;
  double max_loss = 0.9;
  std::optional<std::string> against_index, save_index;
  std::string index_kind = "full";
  double bloom_rate = 1e-5;
  // classify
  std::optional<std::string> model;
  std::string label = "label";
  std::vector<std::string> keep_labels;
  double least = 0;
  // decontaminate
  std::vector<std::string> tasks;
  int64_t words = 13;
  // mix
  std::vector<std::string> weights;  // "web=0.7"
  std::optional<std::string> size;
  double max_repeats = 4;
  int64_t seed = 0;

  void fields(ConfigFields& f);
};

struct PipelineTokens {
  std::string tokenizer;
  std::string out;
  bool append_eos = true;

  void fields(ConfigFields& f);
};

struct PipelineConfig {
  std::vector<std::string> inputs;
  std::string out;
  std::string text_field = "text";
  std::string on_error = "stop";
  std::string memory = "4GiB";
  int64_t level = 3;
  int64_t samples = 5;
  bool keep_stages = false;
  std::vector<PipelineStage> stages;
  std::optional<PipelineTokens> tokens;

  void fields(ConfigFields& f);
};

struct PipelineResult {
  std::vector<std::pair<std::string, Json>> stages;  // folder name and counts
  int64_t documents = 0, tokens = 0;                 // of the shard
};

// Stages that look at each document on its own, and the signatures of a deduplication after them,
// are done in one pass. What stages leave is the same as one by one, but only the last one's
// documents stay (and those of one with an index, or as Parquet).
// Stages that were done by an earlier run with the same config are not done again; with another
// config for one, or for one before it, Fault::usage unless `overwrite`.
PipelineResult run_pipeline(const PipelineConfig& config, bool overwrite);

}  // namespace tephra

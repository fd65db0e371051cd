// SPDX-License-Identifier: Apache-2.0
// Flags that all stages over a corpus share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tephra/cli/command.h"
#include "tephra/data/corpus/stage.h"
#include "tephra/data/pipeline/stage_options.h"

namespace tephra {

struct CorpusOptions {
  std::vector<std::string> inputs;
  std::string out;
  std::string text_field = "text";
  std::string on_error = "stop";
  std::string shard = "auto";
  std::string max_document = "256MB";
  std::string memory = "4GiB";
  int64_t samples = 5;
  int64_t level = 3;
  std::string format = "jsonl";
  bool overwrite = false;
  bool json = false;
};

void describe_corpus(Flags& flags, CorpusOptions& o);
void describe_output_format(Flags& flags, CorpusOptions& o);  // of stages that leave documents

// Checks the flags and the output folder, and installs the signal handlers.
StageSettings stage_settings(const CorpusOptions& o);

CorpusContext corpus_context(const CorpusOptions& o);

// What readers left out, by reason: "12 no_html, 3 status".
void tell_left_out(const Tally& tally, const std::string& where = "");

// Warnings about what could not be read.
void tell_bad(const Tally& tally, const std::string& where = "");

// The same of a stage; for a shard, what to do next.
void tell_troubles(const StageRun& run, const CorpusOptions& o);
void tell_shard_done(const std::string& out, const std::string& shard);

// With --json: prints what the stage counted, and is true. Also when there is nothing to tell: of
// ranks but the first one, which tells of all, and of shards that wait for others.
bool told_as_json(const StageRun& run, const CorpusOptions& o,
                  std::optional<double> seconds = std::nullopt);

}  // namespace tephra

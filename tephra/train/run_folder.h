// SPDX-License-Identifier: Apache-2.0
// The files of a run beside its checkpoints:
//   config.toml     the resolved config
//   model/          config.json, tokenizer.json and what belongs to them, for export
//   metrics.jsonl   tensorboard/   checkpoints/   lock
#pragma once

#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/train/config.h"

namespace tephra {

// The keys, as "model.hidden_size", in which two dumped configs differ.
std::vector<std::string> changed_keys(const std::string& before, const std::string& after);

// A checkpoint's config against that of the run that wants to go on from it. Another model or seed
// is a Fault::usage; other changes are warned about. `where` is the checkpoint.
void check_same_run(const std::string& saved, const std::string& config, const Path& where);

// The model of a checkpoint against that of the run that wants to go on from it: with --init-from
// the run's config does not say what the model is. Fault::usage when a key that both have differs,
// but for the ids of tokens, which are the tokenizer's, and `rope_theta` where phases set their
// own.
void check_same_model(const Json& saved, const Json& model_config, bool phases_set_rope_theta,
                      const Path& where);

// Where the tokenizer and its chat template are read before the run folder is written: a folder
// that has both where it lies; else they are put together in `scratch`.
Path tokenizer_folder(const DataSettings& settings, const Path& scratch);

// Puts the tokenizer's files into model/: those of a folder (or beside a tokenizer.json), or the
// byte tokenizer's for "bytes"; and the chat template that data.chat_template names. Returns the
// folder.
Path place_tokenizer(const Path& run_dir, const DataSettings& settings);

void write_run_files(const Path& run_dir, const std::string& config, const Json& model_config);

}  // namespace tephra

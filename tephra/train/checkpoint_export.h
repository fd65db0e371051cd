// SPDX-License-Identifier: Apache-2.0
// From a training checkpoint to a model folder that anybody can use.
#pragma once

#include "tephra/models/checkpoint.h"

namespace tephra {

inline constexpr const char* kModelConfigKey = "model_config";  // of the state: a config.json

// What a path is, by what lies in it.
bool is_training_checkpoint(const Path& path);  // step-N, with a manifest
bool is_run_folder(const Path& path);           // with checkpoints/

// `from` is a step-N, or a run folder, of which the newest good checkpoint is taken. The config
// comes from its state or from RUN/model, the tokenizer from RUN/model. In f32, a bf16 weight whose
// remainder is there becomes its exact master. Returns the step.
int64_t export_training_checkpoint(const Path& from, const Path& to, const WriteOptions& options);

// "model", or the kind of optimizer state that a tensor of this name is: "adamw.m".
std::string tensor_group(std::string_view name);

}  // namespace tephra

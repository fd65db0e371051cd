// SPDX-License-Identifier: Apache-2.0
// Model folders on disk: opened, checked, rewritten, made up. None of this holds more than one
// tensor in memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tephra/models/model.h"
#include "tephra/models/packed.h"

namespace tephra {

// A Hugging Face folder and what its config.json says it is.
struct ModelFolder {
  Path path;
  Json config;
  std::string where;  // config.json, for messages
  const ModelKind* kind;
};

ModelFolder open_model_folder(const Path& path);

struct WriteOptions {
  std::optional<DType> dtype;  // of every tensor; as stored when not given
  int64_t max_shard_bytes = 5'000'000'000;
  bool force = false;                         // into a folder that holds something
  std::optional<Quantisation> quantise = {};  // what may be, so; the rest as `dtype` says
};

// A model to be written, from wherever its tensors come.
struct ModelSource {
  Json config;                       // in the native layout
  std::vector<TensorEntry> entries;  // every parameter, in the order in which it is written
  Path side_files;                   // the folder of its tokenizer and such; empty: none
};

// Asks `make` for one tensor after the other.
void write_model_folder(const ModelSource& source, const Path& to, const WriteOptions& options,
                        FunctionRef<Tensor(size_t i)> make);

// Writes the model in the native layout (or quantised), with the tokenizer and other files that lie
// beside it.
void convert_checkpoint(const Path& from, const Path& to, const WriteOptions& options);

enum class RandomInit {
  standard,  // as training starts
  lively,    // so that every term of the model matters: no bias zero, no scale one
};

void write_random_checkpoint(const Json& config, const std::string& where, const Path& to,
                             uint64_t seed, RandomInit init, const WriteOptions& options);

struct FolderReport {
  int64_t tensors = 0;
  int64_t values = 0;
  std::vector<std::string> problems;
};

// Reads everything: the JSON files, every tensor's place in the model, every value. A path that is
// no model folder is a Fault::usage; what is wrong inside goes into the report.
FolderReport verify_checkpoint(const Path& path);

}  // namespace tephra

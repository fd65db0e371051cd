// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/checkpoint_export.h"

#include <unordered_set>

#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/optim/master.h"
#include "tephra/train/checkpoint.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStateGroups[] = {"adamw.m",          "adamw.v",   "muon.momentum",
                                             "master_remainder", "balance.m", "balance.v"};
constexpr int64_t kGrain = 1 << 16;

std::string remainder_name(const std::string& parameter) { return "master_remainder." + parameter; }

// step-N lies in RUN/checkpoints.
Path run_folder_of(const Path& checkpoint) {
  return fs::canonical(checkpoint).parent_path().parent_path();
}

// The model's config, and where it stands for messages.
std::pair<Json, std::string> model_config(const Checkpoint& checkpoint, const Path& model_folder) {
  if (const Json* config =
          checkpoint.state().is_object() ? checkpoint.state().find(kModelConfigKey) : nullptr) {
    return {*config,
            format("{}: {}", (checkpoint.folder() / kManifestName).string(), kModelConfigKey)};
  }
  const Path path = model_folder / "config.json";
  require_data(fs::exists(path), "{}: its state has no {}, and there is no {}",
               checkpoint.folder().string(), kModelConfigKey, path.string());
  return {Json::parse(read_file(path), path.string()), path.string()};
}

// Every tensor is a parameter of the model or state of the optimizer, and no parameter is missing.
void account(const Checkpoint& checkpoint, const std::vector<ParameterSpec>& parameters) {
  std::unordered_set<std::string> names;
  for (const ParameterSpec& spec : parameters) {
    const ManifestTensor& stored = checkpoint.tensor(spec.name);
    require_data(stored.shape == spec.shape, "{}: tensor '{}': expected {}, got {}",
                 checkpoint.folder().string(), spec.name, spec.shape, stored.shape);
    names.insert(spec.name);
  }
  for (const ManifestTensor& tensor : checkpoint.tensors()) {
    require_data(tensor_group(tensor.name) != "model" || names.contains(tensor.name),
                 "{}: tensor '{}' is neither a parameter of the model nor state of an optimizer",
                 checkpoint.folder().string(), tensor.name);
  }
}

Tensor exact_master(const Tensor& weight, const Tensor& remainder) {
  Tensor master(weight.shape(), DType::f32, kCpu, Purpose::workspace);
  const bf16* high = weight.data<bf16>();
  const int16_t* low = remainder.data<int16_t>();
  float* out = master.data<float>();
  parallel_for(master.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = join_master({high[i], low[i]});
  });
  return master;
}

Tensor exported(const Checkpoint& checkpoint, const std::string& name, DType dtype) {
  Tensor value = checkpoint.load(name);
  const bool rounded = value.dtype() == DType::bf16 && dtype == DType::f32;
  if (rounded && checkpoint.contains(remainder_name(name))) {
    return exact_master(value, checkpoint.load(remainder_name(name)));
  }
  return to_dtype(value, dtype);
}

}  // namespace

bool is_training_checkpoint(const Path& path) { return fs::exists(path / kManifestName); }

bool is_run_folder(const Path& path) { return fs::is_directory(checkpoints_folder(path)); }

std::string tensor_group(std::string_view name) {
  for (const std::string_view group : kStateGroups) {
    if (name.starts_with(group) && name.substr(group.size()).starts_with('.')) {
      return std::string(group);
    }
  }
  return "model";
}

int64_t export_training_checkpoint(const Path& from, const Path& to, const WriteOptions& options) {
  const Checkpoint checkpoint = open_named(from);
  const Path model_folder = run_folder_of(checkpoint.folder()) / "model";
  const auto [config, where] = model_config(checkpoint, model_folder);
  const ModelKind& kind = model_kind(config, where);
  const std::vector<ParameterSpec> parameters = kind.parameters(config, where);
  account(checkpoint, parameters);
  ModelSource source{kind.native_config(config, where), {}, model_folder};
  for (const ParameterSpec& spec : parameters) {
    const DType stored = checkpoint.tensor(spec.name).dtype;
    source.entries.push_back({spec.name, options.dtype.value_or(stored), spec.shape});
  }
  write_model_folder(source, to, options, [&](size_t i) {
    return exported(checkpoint, source.entries[i].name, source.entries[i].dtype);
  });
  return checkpoint.step();
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tephra/models/checkpoint.h"
#include "tephra/models/packed.h"

namespace tephra {
namespace {

// One more than the largest id that the tokenizer knows; 0 without a tokenizer.
int64_t tokenizer_size(const Path& path) {
  if (!std::filesystem::exists(path)) return 0;
  const Json json = Json::parse(read_file(path), path.string());
  const Fields fields(json, path.string());
  int64_t largest = -1;
  if (fields.has("model")) {
    const Fields model = fields.object("model");
    const Json* vocab = model.json().find("vocab");
    if (vocab && vocab->is_object()) {
      for (const auto& [token, id] : vocab->object()) {
        if (id.is_int()) largest = std::max(largest, id.integer());
      }
    }
  }
  if (fields.has("added_tokens")) {
    for (const Json& added : fields.array("added_tokens")) {
      largest = std::max(largest, Fields(added, path.string()).integer("id"));
    }
  }
  return largest + 1;
}

}  // namespace

std::unique_ptr<Model> load_model(const Path& path, const LoadOptions& given) {
  LoadOptions options = given;
  if (options.usable_tokens == 0) options.usable_tokens = tokenizer_size(path / "tokenizer.json");
  const ModelFolder folder = open_model_folder(path);
  const TensorFolder tensors = TensorFolder::open(path);
  TEPHRA_ASSERT(folder.kind->create, "every kind of model can be built");
  WeightPlan plan = folder.kind->weights(tensors, folder.config, folder.where);
  const std::optional<Quantisation> quantised = quantisation_of(folder.config, folder.where);
  const bool on_gpu = options.device.kind == Device::Kind::gpu;
  const bool in_place = options.dtype == DType::f32 && !on_gpu && !options.with_gradients;
  const bool narrow = options.dtype == DType::f32 || options.dtype == DType::bf16;
  require(
      !quantised || in_place || (on_gpu && narrow && !options.with_gradients),
      "{}: the model is quantised: expected inference in f32 on the cpu, or in f32 or bf16 on a "
      "gpu, got {} on {}{}; take the model that it was made from",
      path.string(), options.dtype, options.device,
      options.with_gradients ? " with gradients" : "");
  if (quantised || (options.mapped && in_place)) check_weights(tensors, plan);
  if (quantised && on_gpu) {
    options.weights = packed_on_device(tensors, plan, *quantised, options.device);
  } else if (quantised || (options.mapped && in_place)) {
    options.weights = weights_in_place(tensors, plan, options);
  }
  std::unique_ptr<Model> model = folder.kind->create(folder.config, folder.where, options);
  folder.kind->load(tensors, folder.config, folder.where, model->parameters());
  return model;
}

}  // namespace tephra

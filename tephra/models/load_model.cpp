// SPDX-License-Identifier: Apache-2.0
#include "tephra/io/safetensors.h"
#include "tephra/models/model.h"
#include "tephra/models/zaya1/model.h"

namespace tephra {

std::unique_ptr<Model> load_model(const Path& folder, const LoadOptions& options) {
  require_folder(folder, "model");
  const Path path = folder / "config.json";
  const Json config = Json::parse(read_file(path), path.string());
  const TensorFolder tensors = TensorFolder::open(folder);
  const zaya1::Config c = zaya1::parse_config(config, path.string());
  auto model = zaya1::create(c, options);
  zaya1::load_weights(tensors, c, zaya1::is_legacy(config), model->parameters());
  return model;
}

}  // namespace tephra

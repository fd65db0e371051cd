// SPDX-License-Identifier: Apache-2.0
#include "tephra/models/checkpoint.h"

namespace tephra {

std::unique_ptr<Model> load_model(const Path& path, const LoadOptions& options) {
  const ModelFolder folder = open_model_folder(path);
  const TensorFolder tensors = TensorFolder::open(path);
  TEPHRA_ASSERT(folder.kind->create, "every kind of model can be built");
  std::unique_ptr<Model> model = folder.kind->create(folder.config, folder.where, options);
  folder.kind->load(tensors, folder.config, folder.where, model->parameters());
  return model;
}

}  // namespace tephra

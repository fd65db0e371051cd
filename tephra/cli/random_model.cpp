// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/random_model.h"

#include <algorithm>

#include "tephra/models/checkpoint.h"

namespace tephra {

bool is_preset(const std::string& model) {
  const std::vector<std::string> presets = preset_names();
  return std::find(presets.begin(), presets.end(), model) != presets.end() &&
         !std::filesystem::is_directory(model);
}

NamedModel load_or_draw(const std::string& model, const LoadOptions& options) {
  if (!is_preset(model)) {
    const ModelFolder folder = open_model_folder(model);
    return {folder.config, folder.kind, load_model(model, options)};
  }
  const Json config = preset_config(model);
  const ModelKind& kind = model_kind(config, model);
  NamedModel drawn{config, &kind, kind.create(config, model, options)};
  drawn.model->parameters().initialise(1);
  return drawn;
}

}  // namespace tephra

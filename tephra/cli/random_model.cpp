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

void check_bits(const std::string& model, int64_t bits) {
  require(bits == 0 || bits == 8 || bits == 4, "--bits: expected 8 or 4, got {}", bits);
  require(bits == 0 || is_preset(model),
          "--bits: draws the quantised weights of a preset; a folder is taken as it is, got "
          "--model {}",
          model);
}

NamedModel load_or_draw(const std::string& model, const LoadOptions& given, int64_t bits) {
  constexpr uint64_t kSeed = 1;
  check_bits(model, bits);
  require(bits == 0 || !given.with_gradients,
          "--bits: quantised weights have no gradients; expected none to be asked for");
  if (!is_preset(model)) {
    const ModelFolder folder = open_model_folder(model);
    return {folder.config, folder.kind, load_model(model, given)};
  }
  const Json config = preset_config(model);
  const ModelKind& kind = model_kind(config, model);
  LoadOptions options = given;
  if (bits > 0) {
    const PackedFormat format = bits == 8 ? PackedFormat::q8 : PackedFormat::q4;
    options.weights = draw_packed_weights(kind.parameters(config, model), {format, format}, kSeed,
                                          options.device);
  }
  NamedModel drawn{config, &kind, kind.create(config, model, options)};
  drawn.model->parameters().initialise(kSeed);
  return drawn;
}

}  // namespace tephra

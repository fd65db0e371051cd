// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/model_device.h"

#include "tephra/base/log.h"
#include "tephra/models/checkpoint.h"

namespace tephra {

Device device_for(bool quantised, const std::string& text, Device found) {
  return quantised && text == "auto" ? kCpu : found;
}

Device device_for(const Path& folder, const std::string& text) {
  const Device found = parse_device(text);
  const ModelFolder model = open_model_folder(folder);
  const bool quantised = quantisation_of(model.config, model.where).has_value();
  const Device device = device_for(quantised, text, found);
  if (device != found) {
    log_info("{}: quantised models run on the CPU; {} is left alone", folder.string(), found);
  }
  return device;
}

DType dtype_for(const std::string& text, Device device) {
  if (text == "auto") return device.kind == Device::Kind::gpu ? DType::bf16 : DType::f32;
  return *parse_dtype(text);
}

void describe_weights(Flags& flags, std::string& text) {
  flags
      .add("--weights", text,
           "quantised and bf16 weights on the CPU: mapped files start at once; in memory a token "
           "takes less time, after all of them were read; auto: memory if they are at most half of "
           "what is free")
      .choices({"auto", "mapped", "memory"});
}

WeightPlace place_for(const std::string& text) { return *parse_weight_place(text); }

}  // namespace tephra

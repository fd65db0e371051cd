// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/model_device.h"

#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/device/memory.h"

namespace tephra {

DType dtype_for(const std::string& text, Device device) {
  if (text == "auto") return device.kind == Device::Kind::gpu ? DType::bf16 : DType::f32;
  return *parse_dtype(text);
}

void describe_device(Flags& flags, std::string& text, const std::string& more) {
  flags.add("--device", text,
            "cpu, gpu, gpu:N, or auto: the first GPU that this build has kernels for, else the "
            "CPU" +
                more);
}

void describe_weights(Flags& flags, std::string& text) {
  flags
      .add("--weights", text,
           "quantised and bf16 weights on the CPU: mapped files read what is needed and may be "
           "larger than memory, and what the system has of them in small pages is copied first, if "
           "there is room and many tokens are to come (0.2 to 2 s a GiB); memory: all of them are "
           "read first; auto: memory if they are at most half of what is free")
      .choices({"auto", "mapped", "memory"});
}

WeightPlace place_for(const std::string& text) { return *parse_weight_place(text); }

void ModelFlags::describe(Flags& flags) {
  flags.add("--dtype", dtype, "arithmetic; auto: f32 on the CPU, bf16 on a GPU")
      .choices({"auto", "f32", "bf16"});
  describe_device(flags, device);
  describe_weights(flags, weights);
}

std::unique_ptr<Model> ModelFlags::load(const Path& folder, Device on, bool many_tokens) const {
  auto model = load_model(folder, {.dtype = dtype_for(dtype, on),
                                   .device = on,
                                   .mapped = true,
                                   .place = place_for(weights),
                                   .copy_small_pages = many_tokens});
  if (on.kind == Device::Kind::gpu) {
    const MemoryUse used = memory_use(Device::Kind::gpu)[static_cast<size_t>(Purpose::weights)];
    log_info("{} of weights on {}", human_bytes(used.bytes), on);
  }
  return model;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/device.h"

#include <charconv>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/device/device_name.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/device/gpu/usable.h"

namespace tephra {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Fault::usage, "device: " + what,
              "--device auto: the first GPU that can be used, else the CPU");
}

// The number after "gpu:", 0 without one.
int gpu_index(const std::string& text) {
  if (text == "gpu") return 0;
  int index = -1;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + 4, end, index);
  if (error == std::errc::result_out_of_range) {
    refuse(format("the number of '{}' is too large", clipped(text, 60)));
  }
  if (error != std::errc() || at != end || index < 0) {
    refuse(format("expected a number from 0 after gpu:, got '{}'", clipped(text, 60)));
  }
  return index;
}

}  // namespace

std::string to_text(Device device) {
  return device.kind == Device::Kind::cpu ? "cpu" : format("gpu:{}", device.index);
}

AutoDevice auto_device(int num_gpus, FunctionRef<const std::string&(int index)> why_unusable) {
  AutoDevice found;
  for (int i = 0; i < num_gpus; ++i) {
    const Device gpu{Device::Kind::gpu, i};
    const std::string& why = why_unusable(i);
    if (why.empty()) return {gpu, ""};
    found.why_cpu += format("{}{}: {}", i == 0 ? "" : "; ", gpu, why);
  }
  return found;
}

Device device_named(const std::string& text) {
  if (text == "cpu") return kCpu;
  if (text == "auto") {
    const auto count = static_cast<int>(gpu::status().devices.size());
    const auto why = [](int index) -> const std::string& { return gpu::why_unusable(index); };
    const AutoDevice found = auto_device(count, why);
    if (!found.why_cpu.empty()) warn_once("auto device", "running on the CPU: {}", found.why_cpu);
    return found.device;
  }
  if (text != "gpu" && !text.starts_with("gpu:")) {
    refuse(format("expected cpu, gpu, gpu:N or auto, got '{}'", clipped(text, 60)));
  }
  return {Device::Kind::gpu, gpu_index(text)};
}

Device parse_device(const std::string& text) {
  const Device device = device_named(text);
  if (device.kind == Device::Kind::cpu) return device;
  const gpu::Status& found = gpu::status();
  const auto count = static_cast<int>(found.devices.size());
  if (count == 0) {
    throw Error(Fault::device, format("device {}: {}", text, found.why_none), found.hint);
  }
  if (device.index >= count) {
    throw Error(Fault::device,
                format("device {}: this machine has {} GPU{}", text, count, count == 1 ? "" : "s"),
                count == 1 ? "use gpu:0" : format("use gpu:0 to gpu:{}", count - 1));
  }
  if (const std::string& why = gpu::why_unusable(device.index); !why.empty()) {
    throw Error(Fault::device, format("device {}: {}", text, why), "use --device cpu, or auto");
  }
  return device;
}

}  // namespace tephra

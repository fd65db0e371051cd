// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/device.h"

#include <charconv>

#include "tephra/base/error.h"
#include "tephra/device/gpu/runtime.h"

namespace tephra {
namespace {

// The number after "gpu:", 0 without one; -1 when it is none.
int gpu_index(const std::string& text) {
  if (text == "gpu") return 0;
  int index = -1;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + 4, end, index);
  return error == std::errc() && at == end ? index : -1;
}

}  // namespace

std::string to_text(Device device) {
  return device.kind == Device::Kind::cpu ? "cpu" : format("gpu:{}", device.index);
}

Device parse_device(const std::string& text) {
  if (text == "cpu") return kCpu;
  if (text == "auto") {
    return gpu::status().devices.empty() ? kCpu : Device{Device::Kind::gpu, 0};
  }
  if (text == "gpu" || text.starts_with("gpu:")) {
    const int index = gpu_index(text);
    require(index >= 0, "device: expected a number after gpu:, got '{}'", text);
    const gpu::Status& found = gpu::status();
    const auto count = static_cast<int>(found.devices.size());
    if (count == 0) {
      throw Error(Fault::device, format("device {}: {}", text, found.why_none), found.hint);
    }
    if (index >= count) {
      throw Error(
          Fault::device,
          format("device {}: this machine has {} GPU{}", text, count, count == 1 ? "" : "s"),
          count == 1 ? "use gpu:0" : format("use gpu:0 to gpu:{}", count - 1));
    }
    return {Device::Kind::gpu, index};
  }
  throw Error(Fault::usage, format("device: expected cpu, gpu or gpu:N, got '{}'", text));
}

}  // namespace tephra

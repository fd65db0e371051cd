// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/device.h"

#include <charconv>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/device/device_name.h"
#include "tephra/device/gpu/runtime.h"

namespace tephra {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Fault::usage, "device: " + what,
              "--device auto: the first GPU if there is one, else the CPU");
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

Device device_named(const std::string& text) {
  if (text == "cpu") return kCpu;
  if (text == "auto") {
    return gpu::status().devices.empty() ? kCpu : Device{Device::Kind::gpu, 0};
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
  return device;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/device.h"

#include "tephra/base/error.h"

namespace tephra {

std::string to_text(Device device) {
  return device.kind == Device::Kind::cpu ? "cpu" : format("gpu:{}", device.index);
}

Device parse_device(const std::string& text) {
  if (text == "cpu") return kCpu;
  if (text == "gpu" || text.starts_with("gpu:")) {
    throw Error(Fault::device, format("device {}: this build has no GPU backend", text),
                "use --device cpu");
  }
  throw Error(Fault::usage, format("device: expected cpu, gpu or gpu:N, got '{}'", text));
}

}  // namespace tephra

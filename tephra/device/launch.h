// SPDX-License-Identifier: Apache-2.0
// Runs a kernel where its tensors are. A kernel is a struct whose fields are the arguments and
// whose member functions are the backends: on_cpu() in <op>_cpu.cpp, on_gpu(stream) in <op>_gpu.cu.
#pragma once

#include <string_view>
#include <typeinfo>

#include "tephra/base/error.h"
#include "tephra/device/device.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/device/kernel_times.h"

namespace tephra {

template <class Kernel>
void launch(Device device, std::string_view name, const Kernel& kernel) {
  if (device.kind == Device::Kind::cpu) {
    const KernelTimer timer(name);
    return kernel.on_cpu();
  }
#if TEPHRA_GPU
  if constexpr (requires(gpu::Stream & s) { kernel.on_gpu(s); }) {
    gpu::Stream& stream = gpu::stream(device);
    gpu::begin_op(stream, typeid(Kernel).name());
    try {
      kernel.on_gpu(stream);
    } catch (...) {
      gpu::abandon_op(stream);
      throw;
    }
    return gpu::end_op(stream);
  }
#endif
  throw Error(Fault::device, tephra::format("{}: no kernel for device {}", name, device),
              "use --device cpu");
}

}  // namespace tephra

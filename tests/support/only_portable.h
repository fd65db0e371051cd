// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/device/gpu/runtime.h"

namespace tephra {

// While it lives, GPUs run portable kernels alone, or fast paths as well; then what they ran
// before.
class OnlyPortable {
 public:
  explicit OnlyPortable(bool on = true) { gpu::use_only_portable(on); }
  ~OnlyPortable() { gpu::use_only_portable(before_); }
  OnlyPortable(const OnlyPortable&) = delete;
  OnlyPortable& operator=(const OnlyPortable&) = delete;

 private:
  bool before_ = gpu::only_portable();
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// What environment variables say about the GPU. One that is empty is as good as none; a value that
// is not understood is Fault::usage.
#pragma once

#include <cstdint>
#include <string>

namespace tephra::gpu {

// 0 or 1; `unless_set` without one.
bool switch_setting(const char* name, bool unless_set);

// From 1; 0 without one.
int64_t count_setting(const char* name);

// TEPHRA_GPU_FAIL_AT=N: the Nth op of the process comes with a kernel that fails; or, with
// TEPHRA_GPU_FAIL_AS=CODE, it and all after it are answered with this error of the vendor's, as by
// a device that is lost. How tests see a run end so. The second alone would do nothing and is
// refused.
struct FailSetting {
  int64_t at = 0;  // 0: not at all
  int64_t as = 0;  // 0: by a kernel
};
FailSetting fail_setting();

// Empty without one.
std::string file_setting(const char* name);

}  // namespace tephra::gpu

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

// Empty without one.
std::string file_setting(const char* name);

}  // namespace tephra::gpu

// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/gpu/usable.h"

#include <charconv>

#include "tephra/base/format.h"

namespace tephra::gpu {
namespace {

bool is_before_ampere(const std::string& architecture) {
  if (!architecture.starts_with("sm_")) return false;
  int version = 0;
  std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), version);
  return version < 80;
}

}  // namespace

std::string no_kernels_for(const std::string& architecture) {
  if (is_before_ampere(architecture)) {
    return "GPUs before Ampere (sm_80) are not supported; use --device cpu";
  }
  return format("this build has no kernels for {}; docs/gpu.md says how to build them",
                architecture);
}

}  // namespace tephra::gpu

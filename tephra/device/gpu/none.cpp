// SPDX-License-Identifier: Apache-2.0
// A build without a GPU backend.
#include "tephra/base/error.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/device/gpu/usable.h"

#if !TEPHRA_GPU

namespace tephra::gpu {
namespace {

[[noreturn]] void refuse() { throw Error(Fault::device, status().why_none, status().hint); }

}  // namespace

const Status& status() {
  static const Status none{.backend = "none",
                           .driver = "",
                           .why_none = "this build has no GPU backend",
                           .hint = "use --device cpu, or build where nvcc is found",
                           .devices = {}};
  return none;
}

const std::string& why_unusable(int) { return status().why_none; }
bool has_hopper_code() { return false; }
bool starts_kernels_early(int) { return false; }
std::vector<std::pair<std::string, std::string>> libraries() { return {}; }
Stream& stream(Device) { refuse(); }
void begin_op(Stream&, const char*) {}
void end_op(Stream&) {}
void abandon_op(Stream&) {}
void* allocate(Device, int64_t) { refuse(); }
void release(Device, void*) {}
void trim(Device) {}
Memory memory(Device) { refuse(); }
void copy(Device, Direction, void*, const void*, int64_t) { refuse(); }
void copy_rows(Device, Direction, const RowCopy&) { refuse(); }
void fill_bytes(Device, void*, int, int64_t) { refuse(); }
void synchronize(Device) { refuse(); }
Ceilings measure_ceilings(Device) { refuse(); }
void start_profile(Device) { refuse(); }
std::vector<KernelTime> finish_profile(Device) { refuse(); }
bool only_portable() { return false; }
void use_only_portable(bool) {}

}  // namespace tephra::gpu

#endif

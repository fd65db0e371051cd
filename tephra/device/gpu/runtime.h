// SPDX-License-Identifier: Apache-2.0
// GPUs as the rest of the program sees them: no vendor's header, and the same interface in a build
// without a GPU backend (none.cpp). Each device has one stream, on which copies and kernels run in
// the order of their calls; what returns values to the host waits for it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tephra/device/device.h"

namespace tephra::gpu {

struct Info {
  std::string name;
  std::string architecture;  // "sm_90", "gfx942"
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
};

struct Status {
  std::string backend;   // "CUDA 13.0", "HIP 5.2", "none"
  std::string driver;    // its version; empty when there is none
  std::string why_none;  // one sentence, empty when there are devices
  std::string hint;      // what to do about it
  std::vector<Info> devices;
};

// Looked up once. Never throws.
const Status& status();

// Name and version of the vendor's libraries that were found; they are opened when first used.
std::vector<std::pair<std::string, std::string>> libraries();

// Throws Fault::device where there is no such device.
Stream& stream(Device device);
// Around the kernels of one op: its (mangled) name is for errors and the profile. An op that fails
// is abandoned.
void begin_op(Stream& stream, const char* name);
void end_op(Stream& stream);
void abandon_op(Stream& stream);

// Null when the memory does not fit. The contents are undefined, and a released block may be handed
// out again at once: work is in the order of the stream.
void* allocate(Device device, int64_t bytes);
void release(Device device, void* data);
// Gives blocks that are kept for reuse back to the system.
void trim(Device device);

struct Memory {
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};
Memory memory(Device device);

enum class Direction { to_device, to_host, on_device };

// Host memory may be reused when the call returns.
void copy(Device device, Direction direction, void* to, const void* from, int64_t bytes);

// `rows` pieces of `bytes`, with so many bytes from one to the next.
struct RowCopy {
  void* to;
  int64_t to_stride;
  const void* from;
  int64_t from_stride;
  int64_t bytes, rows;
};
void copy_rows(Device device, Direction direction, const RowCopy& copy);
void fill_bytes(Device device, void* to, int value, int64_t bytes);

// Waits for all work. Throws Fault::device when any of it has failed.
void synchronize(Device device);

struct Ceilings {
  double gemm_flops_per_second = 0;  // bf16, 8192 x 8192 x 8192, on random numbers
  double copy_bytes_per_second = 0;  // bytes read and bytes written
  double read_bytes_per_second = 0;  // bytes read, of 4 GiB, or of half of what is free
};
// A fifth of a second.
Ceilings measure_ceilings(Device device);

// Kernel-by-kernel times: while on, every launch is timed by events on the stream.
struct KernelTime {
  std::string name;
  int64_t calls = 0;
  double milliseconds = 0;
};
void start_profile(Device device);
// Stops it. Largest first.
std::vector<KernelTime> finish_profile(Device device);

// Whether every device gets what those get that have neither fast paths nor a library:
// TEPHRA_GPU_PORTABLE=1, or a test.
bool only_portable();
void use_only_portable(bool on);

}  // namespace tephra::gpu

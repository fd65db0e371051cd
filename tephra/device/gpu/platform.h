// SPDX-License-Identifier: Apache-2.0
// The only file that knows the vendor. Kernels are written once, against the names here; nothing in
// them assumes how many lanes a wave has. Included by *.cu alone.
#pragma once

#if defined(__HIP__)
#include <hip/hip_runtime.h>
#define TEPHRA_GPU_API(name) hip##name
#else
#include <cuda_runtime.h>
#define TEPHRA_GPU_API(name) cuda##name
#endif

#include <cstdint>
#include <string>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/device/gpu/runtime.h"

namespace tephra::gpu {

#if defined(__HIP__)
using Result = hipError_t;
using RawStream = hipStream_t;
using RawEvent = hipEvent_t;
using RawGraph = hipGraph_t;
using RawGraphExec = hipGraphExec_t;
using RawPool = hipMemPool_t;
using Properties = hipDeviceProp_t;
inline constexpr const char* kBackend = "HIP";
inline constexpr bool kHasCudaLibraries = false;
inline constexpr Result kNotCompiledForDevice = hipErrorNoBinaryForGpu;

// Lanes that run together; a power of two.
__device__ inline int wave_size() { return warpSize; }
template <class T>
__device__ T shuffle_xor(T value, int mask) {
  return __shfl_xor(value, mask);
}
#else
using Result = cudaError_t;
using RawStream = cudaStream_t;
using RawEvent = cudaEvent_t;
using RawGraph = cudaGraph_t;
using RawGraphExec = cudaGraphExec_t;
using RawPool = cudaMemPool_t;
using Properties = cudaDeviceProp;
inline constexpr const char* kBackend = "CUDA";
inline constexpr bool kHasCudaLibraries = true;
inline constexpr Result kNotCompiledForDevice = cudaErrorNoKernelImageForDevice;

__device__ inline int wave_size() { return warpSize; }
template <class T>
__device__ T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
#endif

inline constexpr Result kSuccess = TEPHRA_GPU_API(Success);

// Throws Fault::device for a failed call: `what` was being done.
[[noreturn]] void fail(Result result, const char* what);
inline void check(Result result, const char* what) {
  if (result != kSuccess) [[unlikely]]
    fail(result, what);
}

struct Grid {
  int64_t blocks = 1;
  int64_t blocks_y = 1;
  int64_t blocks_z = 1;
  int threads = 256;  // a multiple of every vendor's wave
  int64_t shared_bytes = 0;
};

// The stream of one device. Its launches name the device's current kernel in errors.
class Stream {
 public:
  explicit Stream(Device device);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  RawStream raw() const { return raw_; }
  // Makes this device the calling thread's current one: every use of the stream begins so.
  void enter() const;

  template <class... P, class... A>
  void launch(void (*kernel)(P...), const Grid& grid, A... args) {
    if (grid.blocks * grid.blocks_y * grid.blocks_z == 0) return;
    const dim3 blocks(static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.blocks_y),
                      static_cast<unsigned>(grid.blocks_z));
    kernel<<<blocks, static_cast<unsigned>(grid.threads), static_cast<unsigned>(grid.shared_bytes),
             raw_>>>(static_cast<P>(args)...);
    check(TEPHRA_GPU_API(GetLastError)(), "launching a kernel");
  }

  void synchronize() const;

  // Around the kernels of one op, see begin_op.
  void begin(const char* name);
  void end();
  void abandon();

 private:
  friend void start_profile(Device device);
  friend std::vector<KernelTime> finish_profile(Device device);
  struct Timed {
    const char* name;
    RawEvent begin, end;
  };
  RawEvent new_event() const;

  Device device_;
  RawStream raw_ = nullptr;
  bool synchronous_ = false;  // TEPHRA_GPU_SYNC=1: wait after every op, so that an error names it
  bool profiling_ = false;
  int depth_ = 0;  // of ops within ops: the outermost counts
  std::vector<Timed> timed_;
};

}  // namespace tephra::gpu

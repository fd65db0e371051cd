// SPDX-License-Identifier: Apache-2.0
// HIP without a GPU, for tests: the part of HIP's runtime and of its device functions that
// device/gpu/platform.h and runtime.cu take, carried out on the CPU (emulated_gpu.cpp). Kernels run
// with waves of 64 lanes, as on gfx942, every lane a fiber of its own: lanes do not run in
// lockstep, their order changes from launch to launch, and memory that nobody wrote is NaN: the
// device's, and what a launch asked for of shared memory; a kernel's own arrays in it hold what the
// last block left there. What only held because of an order then gives other bits, and lanes that
// wait for what never comes, or meet in different places, end the process with what each waits for.
// docs/decisions/0129-kernels-run-without-a-gpu.md.
#pragma once

#include <math.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#define __HIP_DEVICE_COMPILE__ 1
#define __global__
#define __device__
#define __host__
#define __shared__ static  // one block runs at a time
#define __launch_bounds__(...)

// --- what a kernel sees -----------------------------------------------------------------------

struct dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct alignas(16) float4 {
  float x, y, z, w;
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;  // of the lane that runs
inline constexpr int warpSize = 64;

namespace emulated_gpu {

struct Place {
  const char* file;
  int line;
};

// Waits for all lanes of the block that have not ended; whether any of them says yes.
bool wait_for_block(bool says, Place place);
// Waits for the lanes of this one's group of so many neighbours, 32 or 64, and hands them `bytes`
// of `data`, at most kMostBytes.
inline constexpr int kMostBytes = 16;
void meet_neighbours(int lanes, const void* data, size_t bytes, Place place);
// What lane `lane` of the wave handed over when they met last.
const void* handed_over(int lane);
int lane_in_wave();
[[noreturn]] void trap();
void* dynamic_shared();
void launch(const std::function<void()>& lane, dim3 grid, dim3 block, size_t shared_bytes,
            void* stream);

template <class T>
T from_lane(T value, int lanes, int lane, Place place) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMostBytes);
  meet_neighbours(lanes, &value, sizeof value, place);
  std::memcpy(&value, handed_over(lane), sizeof value);
  return value;
}

}  // namespace emulated_gpu

#define TEPHRA_HERE \
  emulated_gpu::Place { __builtin_FILE(), __builtin_LINE() }

inline void __syncthreads(emulated_gpu::Place place = TEPHRA_HERE) {
  emulated_gpu::wait_for_block(false, place);
}
inline int __syncthreads_or(int says, emulated_gpu::Place place = TEPHRA_HERE) {
  return emulated_gpu::wait_for_block(says != 0, place);
}
template <class T>
T __shfl_xor(T value, int mask, emulated_gpu::Place place = TEPHRA_HERE) {
  const int lanes = mask < 32 ? 32 : warpSize;
  return emulated_gpu::from_lane(value, lanes, emulated_gpu::lane_in_wave() ^ mask, place);
}
// Of the caller's `width` neighbours: 32 is all that is asked for.
template <class T>
T __shfl(T value, int lane, int width, emulated_gpu::Place place = TEPHRA_HERE) {
  const int first = emulated_gpu::lane_in_wave() / width * width;
  return emulated_gpu::from_lane(value, width, first + (lane & (width - 1)), place);
}
// Only the bits of the caller's 32 neighbours: the others may be elsewhere.
inline uint64_t __ballot(bool yes, emulated_gpu::Place place = TEPHRA_HERE) {
  emulated_gpu::meet_neighbours(32, &yes, sizeof yes, place);
  const int first = emulated_gpu::lane_in_wave() / 32 * 32;
  uint64_t bits = 0;
  for (int i = first; i < first + 32; ++i) {
    if (*static_cast<const unsigned char*>(emulated_gpu::handed_over(i)) == 1) bits |= 1ull << i;
  }
  return bits;
}
inline void __threadfence() {}
inline void __threadfence_system() {}
template <class T>
T atomicAdd(T* to, std::type_identity_t<T> value) {
  return std::exchange(*to, static_cast<T>(*to + value));
}
inline int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
inline int __ffs(uint32_t bits) { return __builtin_ffs(static_cast<int>(bits)); }
inline int __popc(uint32_t bits) { return __builtin_popcount(bits); }
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t which) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t picked = 0;
  for (int i = 0; i < 4; ++i) {
    picked |= static_cast<uint32_t>(bytes >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  }
  return picked;
}

#define __builtin_trap emulated_gpu::trap
#define __builtin_amdgcn_fence(order, scope) (void)0
#define __builtin_amdgcn_wave_barrier() emulated_gpu::meet_neighbours(32, "", 0, TEPHRA_HERE)

// One instruction of a wave: sixteen rows of a by sixteen of b, sixteen terms of bf16. Lane l has
// terms l / 16 * 4 to + 3 of row l % 16 of each, and gets rows l / 16 * 4 to + 3 of column l % 16.
template <class Terms, class Sums>
Sums __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(Terms a, Terms b, Sums sums, int, int, int,
                                               emulated_gpu::Place place = TEPHRA_HERE) {
  static_assert(sizeof(Terms) == 8 && sizeof(Sums) == 16);
  const Terms both[2] = {a, b};
  emulated_gpu::meet_neighbours(64, both, sizeof both, place);
  const int lane = emulated_gpu::lane_in_wave();
  struct Four {
    float at[4];
  };
  const auto four_terms = [](int from, int matrix) {
    uint16_t bits[4];
    std::memcpy(bits, static_cast<const char*>(emulated_gpu::handed_over(from)) + matrix * 8, 8);
    Four terms;
    for (int k = 0; k < 4; ++k) {
      terms.at[k] = __builtin_bit_cast(float, uint32_t{bits[k]} << 16);
    }
    return terms;
  };
  Four right[4];
  for (int k = 0; k < 4; ++k) right[k] = four_terms(k * 16 + lane % 16, 1);
  for (int row = 0; row < 4; ++row) {
    float sum = sums[row];
    for (int k = 0; k < 4; ++k) {
      const Four left = four_terms(k * 16 + lane / 16 * 4 + row, 0);
      for (int i = 0; i < 4; ++i) sum += left.at[i] * right[k].at[i];
    }
    sums[row] = sum;
  }
  return sums;
}

#define HIP_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(emulated_gpu::dynamic_shared());

// --- the runtime ------------------------------------------------------------------------------

enum hipError_t {
  hipSuccess = 0,
  hipErrorInvalidValue = 1,
  hipErrorMemoryAllocation = 2,
  hipErrorInsufficientDriver = 35,
  hipErrorInvalidDeviceFunction = 98,
  hipErrorNoDevice = 100,
  hipErrorInvalidDevice = 101,
  hipErrorNoBinaryForGpu = 209,
  hipErrorECCNotCorrectable = 214,
  hipErrorNotReady = 600,
  hipErrorIllegalAddress = 700,
  hipErrorLaunchFailure = 719,
};
enum hipMemcpyKind { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice };
enum hipDeviceAttribute_t {
  hipDeviceAttributeMaxSharedMemoryPerBlock,
  hipDeviceAttributePageableMemoryAccessUsesHostPageTables,
};
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum hipMemPoolAttr { hipMemPoolAttrReleaseThreshold = 4 };
enum hipStreamCaptureMode { hipStreamCaptureModeThreadLocal = 1 };
inline constexpr unsigned hipStreamNonBlocking = 1, hipHostMallocPortable = 1,
                          hipHostMallocMapped = 2;

namespace emulated_gpu {
struct Stream;
struct Event;
struct Graph;
struct Pool;
}  // namespace emulated_gpu
using hipStream_t = emulated_gpu::Stream*;
using hipEvent_t = emulated_gpu::Event*;
using hipGraph_t = emulated_gpu::Graph*;
using hipGraphExec_t = emulated_gpu::Graph*;
using hipMemPool_t = emulated_gpu::Pool*;

struct hipDeviceProp_t {
  char name[256];
  char gcnArchName[256];
  size_t totalGlobalMem;
  int multiProcessorCount;
};
struct hipFuncAttributes {};

hipError_t hipGetDeviceCount(int* count);
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device);
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device);
hipError_t hipSetDevice(int device);
hipError_t hipRuntimeGetVersion(int* version);
hipError_t hipDriverGetVersion(int* version);
hipError_t hipGetLastError();
const char* hipGetErrorString(hipError_t error);
hipError_t hipFuncGetAttributes(hipFuncAttributes* attributes, const void* kernel);
hipError_t hipFuncSetAttribute(const void* kernel, hipFuncAttribute attribute, int value);

hipError_t hipMalloc(void** data, size_t bytes);
hipError_t hipFree(void* data);
hipError_t hipMallocAsync(void** data, size_t bytes, hipStream_t stream);
hipError_t hipFreeAsync(void* data, hipStream_t stream);
hipError_t hipHostMalloc(void** data, size_t bytes, unsigned flags);
hipError_t hipHostFree(void* data);
hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total);
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device);
hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value);
hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytes);
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream);
hipError_t hipMemcpy2DAsync(void* to, size_t to_stride, const void* from, size_t from_stride,
                            size_t bytes, size_t rows, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemsetAsync(void* to, int value, size_t bytes, hipStream_t stream);

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph, uint64_t flags);
hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphExecDestroy(hipGraphExec_t exec);
hipError_t hipEventCreate(hipEvent_t* event);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin, hipEvent_t end);
hipError_t hipDeviceSynchronize();
hipError_t hipLaunchHostFunc(hipStream_t stream, void (*function)(void*), void* data);

template <class... P, class... A>
void hipLaunchKernelGGL(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                        hipStream_t stream, A... args) {
  emulated_gpu::launch([kernel, own = std::tuple<P...>(args...)] { std::apply(kernel, own); }, grid,
                       block, shared_bytes, stream);
}

// SPDX-License-Identifier: Apache-2.0
// What differs between vendors, but for products of matrices (matrix_units.h, gemm_library.h).
// Kernels are written once, against the names here; nothing in them assumes how many lanes a wave
// has. Included by *.cu alone.
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
#include "tephra/base/number.h"
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
inline constexpr bool kHasFastPaths = false;  // what is in *_cuda.cu
inline constexpr Result kNotCompiledForDevice = hipErrorNoBinaryForGpu;
// Whether a kernel can start before the one ahead of it has ended.
inline bool can_start_early(int) { return false; }
// Whether blocks can reach each other's shared memory (Grid::cluster).
inline bool can_form_clusters(Device) { return false; }
inline constexpr auto kMostShared = hipDeviceAttributeMaxSharedMemoryPerBlock;
inline constexpr bool kSharedIsLarge = false;  // 64 KiB for all blocks of a multiprocessor

// Lanes that run together; a power of two.
__device__ inline int wave_size() { return warpSize; }
// What the caller's 32 neighbours have read and written in shared memory comes before what they do
// next. A shuffle says nothing of memory.
__device__ inline void order_neighbours() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}
// A barrier of a block's first kThreads: there are no others here.
template <int kThreads>
__device__ inline void sync_first() {
  __syncthreads();
}
template <class T>
__device__ T shuffle_xor(T value, int mask) {
  return __shfl_xor(value, mask);
}
// What `lane` of the caller's 32 neighbours has.
template <class T>
__device__ T shuffle_from(T value, int lane) {
  return __shfl(value, lane, 32);
}
// A bit for each of the caller's 32 neighbours: whether it says yes.
__device__ inline uint32_t ballot(bool yes) {
  return static_cast<uint32_t>(__ballot(yes) >>
                               (threadIdx.x % static_cast<unsigned>(warpSize) / 32 * 32));
}

// A kernel that may start before the one ahead of it has ended (Stream::launch_early): the first
// waits for that one's results and all before, the second lets the next kernel start. Called before
// the wait, several kernels come to wait in a row, with what they can fetch; after it, the next one
// finds what the kernel ahead wrote without waiting. Not on AMD: kernels follow each other.
__device__ inline void wait_for_kernel_ahead() {}
__device__ inline void let_next_kernel_start() {}

// Among the blocks of a cluster: what all have written to each other's shared memory before the
// first is there after the second; where a piece of shared memory lies in block `rank`.
__device__ inline void arrive_at_cluster() {}
__device__ inline void wait_for_cluster() {}
template <class T>
__device__ T* in_block_of_cluster(T* shared, int) {
  return shared;
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
inline constexpr bool kHasFastPaths = true;
inline constexpr Result kNotCompiledForDevice = cudaErrorNoKernelImageForDevice;
inline constexpr auto kMostShared = cudaDevAttrMaxSharedMemoryPerBlockOptin;
inline constexpr bool kSharedIsLarge = true;
// The architecture that the code which a device runs was written for, 90 for sm_90. Where the build
// has none for the device itself, the driver makes it from that of an older one, which does not
// know what came after it.
int code_version(int device);
inline bool can_start_early(int device) { return code_version(device) >= 90; }
inline bool can_form_clusters(Device device) {
  int can = 0;
  return !only_portable() && code_version(device.index) >= 90 &&
         cudaDeviceGetAttribute(&can, cudaDevAttrClusterLaunch, device.index) == cudaSuccess &&
         can != 0;
}

__device__ inline int wave_size() { return warpSize; }
__device__ inline void order_neighbours() { __syncwarp(); }
// A barrier of a block's first kThreads; others may stay away.
template <int kThreads>
__device__ inline void sync_first() {
  asm volatile("bar.sync 0, %0;" ::"n"(kThreads) : "memory");
}
template <class T>
__device__ T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <class T>
__device__ T shuffle_from(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
__device__ inline uint32_t ballot(bool yes) { return __ballot_sync(0xffffffffu, yes); }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline void wait_for_kernel_ahead() { cudaGridDependencySynchronize(); }
__device__ inline void let_next_kernel_start() { cudaTriggerProgrammaticLaunchCompletion(); }
__device__ inline void arrive_at_cluster() { __cluster_barrier_arrive(); }
__device__ inline void wait_for_cluster() { __cluster_barrier_wait(); }
template <class T>
__device__ T* in_block_of_cluster(T* shared, int rank) {
  return static_cast<T*>(__cluster_map_shared_rank(shared, static_cast<unsigned>(rank)));
}
#else
__device__ inline void wait_for_kernel_ahead() {}
__device__ inline void let_next_kernel_start() {}
__device__ inline void arrive_at_cluster() {}
__device__ inline void wait_for_cluster() {}
template <class T>
__device__ T* in_block_of_cluster(T* shared, int) {
  return shared;
}
#endif
#endif

// Sixteen bytes as registers hold them: eight numbers of bf16.
struct alignas(16) Bits128 {
  uint32_t at[4];
};

// Two numbers rounded to bf16, to nearest, the first one in the lower half.
__device__ inline uint32_t bf16_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return uint32_t{bf16(low).bits} | uint32_t{bf16(high).bits} << 16;
#endif
}

// The shared memory that a launch asked for (Grid::shared_bytes).
template <class T>
__device__ inline T* dynamic_shared() {
#if defined(__HIP__)
  HIP_DYNAMIC_SHARED(Bits128, shared_memory)
#else
  extern __shared__ Bits128 shared_memory[];
#endif
  return reinterpret_cast<T*>(shared_memory);
}

// Of a matrix that is read once and not soon again: it leaves no trace in the nearest cache.
__device__ inline Bits128 load_once(const void* from) {
#if defined(__CUDA_ARCH__)
  Bits128 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.at[0]), "=r"(v.at[1]), "=r"(v.at[2]), "=r"(v.at[3])
               : "l"(from));
  return v;
#else
  return *static_cast<const Bits128*>(from);
#endif
}

// The same of four bytes; the neighbours of the cache line are asked for, too.
__device__ inline uint32_t load_word_once(const void* from) {
#if defined(__CUDA_ARCH__)
  uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
#else
  return *static_cast<const uint32_t*>(from);
#endif
}

// Sixteen bytes go from device memory to shared memory. On NVIDIA they are on their way when this
// returns: begun copies are closed into a group, and all groups but the newest kLeft are waited
// for; __syncthreads then shows them to the block. Elsewhere they have arrived.
__device__ inline void copy_to_shared(void* to, const void* from) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
#else
  *static_cast<Bits128*>(to) = *static_cast<const Bits128*>(from);
#endif
}
__device__ inline void close_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kLeft>
__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

// What another block of the same kernel has written: read past the nearest cache.
__device__ inline float load_fresh(const float* from) {
#if defined(__CUDA_ARCH__)
  return __ldcg(from);
#else
  return *static_cast<const volatile float*>(from);
#endif
}

// Four of the eight bytes of `low` (0 to 3) and `high` (4 to 7), as the low four hex digits of
// `which` say, 7 at most; the first one names the lowest byte.
__device__ inline uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t which) {
#if defined(__CUDA_ARCH__)
  uint32_t v;  // as the intrinsic, which masks `which` once more
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(low), "r"(high), "r"(which));
  return v;
#else
  return __byte_perm(low, high, which);
#endif
}

// a * b + c of two numbers of bf16 at once, rounded once.
__device__ inline uint32_t fma_pairs(uint32_t a, uint32_t b, uint32_t c) {
#if defined(__CUDA_ARCH__)
  uint32_t v;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
  return v;
#else
  const auto one = [](uint32_t x, uint32_t y, uint32_t z) {
    const auto wide = [](uint32_t bits) { return __builtin_bit_cast(float, bits << 16); };
    const float sum = fmaf(wide(x), wide(y), wide(z));
    return uint32_t{bf16(sum).bits};
  };
  return one(a & 0xffffu, b & 0xffffu, c & 0xffffu) | one(a >> 16, b >> 16, c >> 16) << 16;
#endif
}

// Sixteen rows of sixteen numbers of bf16 from shared memory, as multiply_16x8x16 takes them for
// `a`. Lane l of 32 neighbours says where row l % 16 lies: its first eight, from lane 16 on its
// last.
__device__ inline void load_16x16(uint32_t (&a)[4], const Bits128* eight) {
#if defined(__CUDA_ARCH__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(eight)))
               : "memory");
#else
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto place = reinterpret_cast<unsigned long long>(eight);
  for (int i = 0; i < 4; ++i) {
    const auto from = shuffle_from(place, i % 2 * 8 + i / 2 * 16 + lane / 4);
    a[i] = reinterpret_cast<const Bits128*>(from)->at[lane % 4];
  }
#endif
}

// c += a b over sixteen terms: a is 16 x 16, b 16 x 8, both bf16, held by 32 neighbouring threads.
// With g = lane / 4 and t = lane % 4 a thread has terms 2t, 2t + 1 (a[0], a[1], b[0]) and 2t + 8,
// 2t + 9 (a[2], a[3], b[1]) of rows g (a[0], a[2]) and g + 8 (a[1], a[3]) of a and of column g of
// b, and of c columns 2t and 2t + 1 of these rows.
__device__ inline void multiply_16x8x16(float (&c)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2]) {
#if defined(__CUDA_ARCH__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const auto dot = [](float sum, uint32_t x, uint32_t y) {
    sum = fmaf(__builtin_bit_cast(float, x << 16), __builtin_bit_cast(float, y << 16), sum);
    return fmaf(__builtin_bit_cast(float, x & 0xffff0000u),
                __builtin_bit_cast(float, y & 0xffff0000u), sum);
  };
  for (int u = 0; u < 4; ++u) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t low = shuffle_from(a[2 * half], 4 * g + u);
      const uint32_t high = shuffle_from(a[2 * half + 1], 4 * g + u);
      const uint32_t even = shuffle_from(b[half], 4 * (2 * t) + u);
      const uint32_t odd = shuffle_from(b[half], 4 * (2 * t + 1) + u);
      c[0] = dot(c[0], low, even);
      c[1] = dot(c[1], low, odd);
      c[2] = dot(c[2], high, even);
      c[3] = dot(c[3], high, odd);
    }
  }
#endif
}

// A b for multiply_16x8x16 from shared memory: sixteen rows, `stride` elements apart and each on
// sixteen bytes, of eight columns; the terms run over the rows.
__device__ inline void load_terms_by_rows(uint32_t (&b)[2], const uint16_t* piece, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#if defined(__CUDA_ARCH__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(b[0]), "=r"(b[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(piece + lane % 16 * stride)))
               : "memory");
#else
  const uint16_t* at = piece + lane % 4 * 2 * stride + lane / 4;
  for (int half = 0; half < 2; ++half) {
    const uint16_t* row = at + half * 8 * stride;
    b[half] = row[0] | static_cast<uint32_t>(row[stride]) << 16;
  }
#endif
}

inline constexpr Result kSuccess = TEPHRA_GPU_API(Success);

// Throws Fault::device for a failed call: `what` was being done.
[[noreturn]] void fail(Result result, const char* what);
inline void check(Result result, const char* what) {
  if (result != kSuccess) [[unlikely]]
    fail(result, what);
}

// Bytes of shared memory that a block of this device can ask for.
inline int64_t most_shared_bytes(Device device) {
  int bytes = 0;
  check(TEPHRA_GPU_API(DeviceGetAttribute)(&bytes, kMostShared, device.index),
        "asking for the size of shared memory");
  return bytes;
}

struct Grid {
  int64_t blocks = 1;
  int64_t blocks_y = 1;
  int64_t blocks_z = 1;
  int threads = 256;  // a multiple of every vendor's wave
  int64_t shared_bytes = 0;
  // Neighbours along x that run at the same time and reach each other's shared memory: launch_early
  // alone takes more than one, where can_form_clusters.
  int cluster = 1;
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
#if !defined(__HIP__)
    kernel<<<blocks, static_cast<unsigned>(grid.threads), static_cast<unsigned>(grid.shared_bytes),
             raw_>>>(static_cast<P>(args)...);
#else
    hipLaunchKernelGGL(kernel, blocks, dim3(static_cast<unsigned>(grid.threads)),
                       static_cast<unsigned>(grid.shared_bytes), raw_, static_cast<P>(args)...);
#endif
    check(TEPHRA_GPU_API(GetLastError)(), "launching a kernel");
  }

  // The same for a kernel that begins with what does not depend on the one ahead of it and then
  // calls wait_for_kernel_ahead, in every thread.
  template <class... P, class... A>
  void launch_early(void (*kernel)(P...), const Grid& grid, A... args) {
    const bool early = starts_early_ && !only_portable();
    if (!early && grid.cluster == 1) return launch(kernel, grid, args...);
#if !defined(__HIP__)
    cudaLaunchAttribute attributes[2]{};
    unsigned count = 0;
    if (early) {
      attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (grid.cluster > 1) {
      attributes[count].id = cudaLaunchAttributeClusterDimension;
      attributes[count++].val.clusterDim = {static_cast<unsigned>(grid.cluster), 1, 1};
    }
    launch_with(attributes, count, kernel, grid, static_cast<P>(args)...);
#endif
  }
#if !defined(__HIP__)
  // For a kernel whose blocks wait for each other: all of them run at once.
  template <class... P, class... A>
  void launch_together(void (*kernel)(P...), const Grid& grid, A... args) {
    cudaLaunchAttribute together{};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    launch_with(&together, 1, kernel, grid, static_cast<P>(args)...);
  }
#endif
  // Lets a kernel have more shared memory than it gets unasked.
  template <class... P>
  void allow_shared(void (*kernel)(P...), int64_t bytes) {
    check(TEPHRA_GPU_API(FuncSetAttribute)(reinterpret_cast<const void*>(kernel),
                                           TEPHRA_GPU_API(FuncAttributeMaxDynamicSharedMemorySize),
                                           static_cast<int>(bytes)),
          "asking for shared memory");
  }

  // Lets a kernel have larger clusters than every device that forms them is sure to have.
  template <class... P>
  void allow_large_clusters([[maybe_unused]] void (*kernel)(P...)) {
#if !defined(__HIP__)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "asking for large clusters");
#endif
  }

  // A number on the device, of one kernel at a time: zero when it starts, and it leaves it so. A
  // graph with such a kernel runs on the stream on which it was recorded.
  uint32_t* counter() const { return counter_; }

  void synchronize() const;
  bool synchronous() const { return synchronous_; }

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
#if !defined(__HIP__)
  template <class... P>
  void launch_with(cudaLaunchAttribute* attributes, unsigned count, void (*kernel)(P...),
                   const Grid& grid, P... args) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.blocks_y),
                          static_cast<unsigned>(grid.blocks_z));
    config.blockDim = dim3(static_cast<unsigned>(grid.threads));
    config.dynamicSmemBytes = static_cast<size_t>(grid.shared_bytes);
    config.stream = raw_;
    config.attrs = attributes;
    config.numAttrs = count;
    check(cudaLaunchKernelEx(&config, kernel, args...), "launching a kernel");
  }
#endif

  Device device_;
  RawStream raw_ = nullptr;
  uint32_t* counter_ = nullptr;
  bool starts_early_ = false;
  bool synchronous_ = false;  // TEPHRA_GPU_SYNC=1: wait after every op, so that an error names it
  bool profiling_ = false;
  int depth_ = 0;  // of ops within ops: the outermost counts
  std::vector<Timed> timed_;
};

// Memory of the host's that kernels can read and write, at the same address and without a copy:
// what they wrote is there when the stream has been waited for, or when it is seen.
class HostRoom {
 public:
  explicit HostRoom(int64_t bytes);
  HostRoom(const HostRoom&) = delete;
  HostRoom& operator=(const HostRoom&) = delete;
  ~HostRoom();
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Launches that are recorded once and then run as one. What they read and write must stay where it
// is, so nothing may be allocated between begin and end.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  void begin(Stream& stream);
  void end(Stream& stream);
  bool recorded() const { return exec_ != nullptr; }
  void launch(Stream& stream) const;

 private:
  RawGraphExec exec_ = nullptr;
};

}  // namespace tephra::gpu

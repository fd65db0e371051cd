// SPDX-License-Identifier: Apache-2.0
// The host's side of the copy engine: matrices as it wants them described, and whether there is
// one.
#pragma once

#include <cuda.h>

#include "tephra/device/gpu/platform.h"

namespace tephra::gpu::hopper {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                            CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                            CUtensorMapFloatOOBfill);

// From the driver at run time: linking libcuda would keep the program from starting without one.
inline Encode find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                       &result) != cudaSuccess ||
      result != cudaDriverEntryPointSuccess) {
    return nullptr;
  }
  return reinterpret_cast<Encode>(found);
}

// `matrices` row-major matrices one after another, in boxes whose rows are 128 bytes.
struct Matrices {
  const void* data;
  int64_t columns, rows, stride, matrices;
  uint32_t box_rows;
  bool f32 = false;

  // As the copy engine wants it: 16 bytes.
  bool aligned() const {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride * (f32 ? 4 : 2) % 16 == 0;
  }

  CUtensorMap describe() const {
    static const Encode encode = find_encode();
    const int64_t element = f32 ? 4 : 2;
    const cuuint64_t size[3] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows),
                                static_cast<cuuint64_t>(matrices)};
    const cuuint64_t steps[2] = {static_cast<cuuint64_t>(stride * element),
                                 static_cast<cuuint64_t>(stride * rows * element)};
    const cuuint32_t box[3] = {static_cast<cuuint32_t>(128 / element), box_rows, 1};
    const cuuint32_t each[3] = {1, 1, 1};
    CUtensorMap map;
    const CUresult result =
        encode(&map, f32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
               const_cast<void*>(data), size, steps, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
      throw Error(Fault::device, "describing a matrix to the copy engine failed with status " +
                                     std::to_string(static_cast<int>(result)));
    }
    return map;
  }
};

// Multiprocessors of a Hopper device whose driver knows the copy engine, else 0; 0 as well in a
// build without Hopper's own code, whose fast kernels are empty.
inline int hopper_processors(const Stream& stream) {
#ifndef TEPHRA_HOPPER_CODE
  (void)stream;
  return 0;
#else
  stream.enter();
  int device = 0, major = 0, minor = 0, processors = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "asking a device");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        "asking a device");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "asking a device");
  return major == 9 && minor == 0 && find_encode() != nullptr ? processors : 0;
#endif
}

// The same, asked once: of the first device, since they are alike.
inline int processors(const Stream& stream) {
  static const int count = hopper_processors(stream);
  return count;
}

}  // namespace tephra::gpu::hopper

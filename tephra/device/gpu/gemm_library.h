// SPDX-License-Identifier: Apache-2.0
// The vendors' libraries of dense products, cuBLASLt and hipBLASLt, under one name: types,
// attributes and prototypes. No symbol of theirs is linked. Included by gemm_library.cu, and by the
// stand-in that tests open.
#pragma once

#include <array>

#include "tephra/base/format.h"
#include "tephra/device/gpu/platform.h"

// What is called of either.
// clang-format off
#define TEPHRA_LT_FUNCTIONS(X)    \
  X(Create)                       \
  X(Destroy)                      \
  X(GetVersion)                   \
  X(Matmul)                       \
  X(MatmulAlgoGetHeuristic)       \
  X(MatmulDescCreate)             \
  X(MatmulDescSetAttribute)       \
  X(MatrixLayoutCreate)           \
  X(MatrixLayoutSetAttribute)     \
  X(MatmulPreferenceCreate)       \
  X(MatmulPreferenceSetAttribute) \
  X(MatmulPreferenceDestroy)
// clang-format on

namespace tephra::gpu::lt {

// On how many bytes operands and results lie.
struct Alignments {
  uint32_t first, second, result;
};

}  // namespace tephra::gpu::lt

#if !defined(__HIP__)
#include <cublasLt.h>

namespace tephra::gpu::lt {

#define TEPHRA_LT(name) cublasLt##name
inline constexpr const char* kName = "cuBLASLt";
inline constexpr const char* kPrefix = "cublasLt";
inline constexpr const char* kSetting = "TEPHRA_CUBLASLT";
inline constexpr std::array kPlaces{"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
                                    "/usr/local/cuda/lib/libcublasLt.so.13", "libcublasLt.so"};

using Status = cublasStatus_t;
using Handle = cublasLtHandle_t;
using Operation = cublasLtMatmulDesc_t;
using Layout = cublasLtMatrixLayout_t;
using Preference = cublasLtMatmulPreference_t;
using Algorithm = cublasLtMatmulAlgo_t;
using Choice = cublasLtMatmulHeuristicResult_t;

inline constexpr Status kDone = CUBLAS_STATUS_SUCCESS;
inline constexpr auto kCompute = CUBLAS_COMPUTE_32F;
inline constexpr auto kF32 = CUDA_R_32F, kBf16 = CUDA_R_16BF;
inline constexpr cublasOperation_t kAsItIs = CUBLAS_OP_N, kTransposed = CUBLAS_OP_T;
inline constexpr cublasLtEpilogue_t kAddBias = CUBLASLT_EPILOGUE_BIAS;
inline constexpr auto kFirst = CUBLASLT_MATMUL_DESC_TRANSA, kSecond = CUBLASLT_MATMUL_DESC_TRANSB,
                      kEpilogue = CUBLASLT_MATMUL_DESC_EPILOGUE,
                      kBias = CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                      kBiasType = CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE;
inline constexpr auto kBatch = CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                      kStep = CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;

// What is wanted of an algorithm: set(attribute, value). It may take so much memory.
inline constexpr int64_t kWorkspaceBytes = 32 << 20;
template <class Set>
void prefer(const Set& set, const Alignments& aligned) {
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspaceBytes));
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));  // k is never split
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.first);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.second);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.result);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.result);
}

template <class Library>
std::string version_of(const Library& lt) {
  const size_t version = lt.GetVersion();
  return format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace tephra::gpu::lt

#else

// Debian has no header of hipBLASLt: this is what is called of it, by the documentation of ROCm 6.
namespace tephra::gpu::lt {

#define TEPHRA_LT(name) hipblasLt##name
inline constexpr const char* kName = "hipBLASLt";
inline constexpr const char* kPrefix = "hipblasLt";
inline constexpr const char* kSetting = "TEPHRA_HIPBLASLT";
inline constexpr std::array<const char*, 0> kPlaces{};  // only where it is asked for: see prefer

enum Status : int { kDone = 0 };
enum Compute : int { kCompute = 2 };  // in f32
enum DataType : int { kF32 = 0, kBf16 = 14 };
enum Transposition : int32_t { kAsItIs = 111, kTransposed = 112 };
enum Epilogue : uint32_t { kAddBias = 4 };
enum OperationAttribute : int { kFirst, kSecond, kEpilogue, kBias, kBiasType };
enum LayoutAttribute : int { kBatch = 0, kStep = 1 };
enum PreferenceAttribute : int { kMostWorkspace = 1 };

using Handle = void*;
using Operation = struct OperationRoom*;
using Layout = struct LayoutRoom*;
using Preference = struct PreferenceRoom*;
struct Algorithm {
  uint8_t data[16] = {};
  size_t most_workspace = 0;
};
struct Choice {
  Algorithm algo;
  size_t workspace = 0;
  Status state = kDone;
  float waves = 1;
  int reserved[4] = {};
};

// Nothing says that k is not split. An algorithm that gets no memory has nowhere to keep parts of
// sums, so that most that split it are out; whether all are, nobody has seen.
inline constexpr int64_t kWorkspaceBytes = 0;
template <class Set>
void prefer(const Set& set, const Alignments&) {
  set(kMostWorkspace, static_cast<uint64_t>(kWorkspaceBytes));
}

template <class Library>
std::string version_of(const Library& lt) {
  Handle handle = nullptr;
  if (lt.Create(&handle) != kDone) return "unknown";
  int version = 0;
  const bool told = lt.GetVersion(handle, &version) == kDone;
  (void)lt.Destroy(handle);
  return told ? format("{}.{}.{}", version / 100000, version / 100 % 1000, version % 100)
              : "unknown";
}

}  // namespace tephra::gpu::lt

extern "C" {
tephra::gpu::lt::Status hipblasLtCreate(tephra::gpu::lt::Handle* handle);
tephra::gpu::lt::Status hipblasLtDestroy(tephra::gpu::lt::Handle handle);
tephra::gpu::lt::Status hipblasLtGetVersion(tephra::gpu::lt::Handle handle, int* version);
tephra::gpu::lt::Status hipblasLtMatrixLayoutCreate(tephra::gpu::lt::Layout* layout,
                                                    tephra::gpu::lt::DataType type, uint64_t rows,
                                                    uint64_t columns, int64_t stride);
tephra::gpu::lt::Status hipblasLtMatrixLayoutSetAttribute(
    tephra::gpu::lt::Layout layout, tephra::gpu::lt::LayoutAttribute attribute, const void* value,
    size_t bytes);
tephra::gpu::lt::Status hipblasLtMatmulDescCreate(tephra::gpu::lt::Operation* operation,
                                                  tephra::gpu::lt::Compute compute,
                                                  tephra::gpu::lt::DataType scale);
tephra::gpu::lt::Status hipblasLtMatmulDescSetAttribute(
    tephra::gpu::lt::Operation operation, tephra::gpu::lt::OperationAttribute attribute,
    const void* value, size_t bytes);
tephra::gpu::lt::Status hipblasLtMatmulPreferenceCreate(tephra::gpu::lt::Preference* preference);
tephra::gpu::lt::Status hipblasLtMatmulPreferenceSetAttribute(
    tephra::gpu::lt::Preference preference, tephra::gpu::lt::PreferenceAttribute attribute,
    const void* value, size_t bytes);
tephra::gpu::lt::Status hipblasLtMatmulPreferenceDestroy(tephra::gpu::lt::Preference preference);
tephra::gpu::lt::Status hipblasLtMatmulAlgoGetHeuristic(
    tephra::gpu::lt::Handle handle, tephra::gpu::lt::Operation operation, tephra::gpu::lt::Layout a,
    tephra::gpu::lt::Layout b, tephra::gpu::lt::Layout c, tephra::gpu::lt::Layout d,
    tephra::gpu::lt::Preference preference, int most, tephra::gpu::lt::Choice* choices, int* count);
tephra::gpu::lt::Status hipblasLtMatmul(
    tephra::gpu::lt::Handle handle, tephra::gpu::lt::Operation operation, const void* alpha,
    const void* a, tephra::gpu::lt::Layout a_layout, const void* b,
    tephra::gpu::lt::Layout b_layout, const void* beta, const void* c,
    tephra::gpu::lt::Layout c_layout, void* d, tephra::gpu::lt::Layout d_layout,
    const tephra::gpu::lt::Algorithm* algorithm, void* workspace, size_t workspace_bytes,
    hipStream_t stream);
}

#endif

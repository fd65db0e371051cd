// SPDX-License-Identifier: Apache-2.0
// Dense products through cuBLASLt, opened at run time: the program starts without it. The header
// gives types and prototypes; no symbol of the library is linked.
#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "tephra/device/device_failure.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/device/gpu/settings.h"
#include "tephra/device/memory.h"

namespace tephra::gpu {
namespace {

// The prototype table.
struct Library {
#define TEPHRA_PROTOTYPE(name) decltype(&cublasLt##name) name = nullptr
  TEPHRA_PROTOTYPE(Create);
  TEPHRA_PROTOTYPE(GetVersion);
  TEPHRA_PROTOTYPE(Matmul);
  TEPHRA_PROTOTYPE(MatmulAlgoGetHeuristic);
  TEPHRA_PROTOTYPE(MatmulDescCreate);
  TEPHRA_PROTOTYPE(MatmulDescSetAttribute);
  TEPHRA_PROTOTYPE(MatrixLayoutCreate);
  TEPHRA_PROTOTYPE(MatrixLayoutSetAttribute);
  TEPHRA_PROTOTYPE(MatmulPreferenceCreate);
  TEPHRA_PROTOTYPE(MatmulPreferenceSetAttribute);
  TEPHRA_PROTOTYPE(MatmulPreferenceDestroy);
#undef TEPHRA_PROTOTYPE
  bool found = false;
};

void* open_library() {
  if (const std::string given = file_setting("TEPHRA_CUBLASLT"); !given.empty()) {
    void* const handle = dlopen(given.c_str(), RTLD_NOW | RTLD_LOCAL);
    require(handle != nullptr, "TEPHRA_CUBLASLT: expected the file of cuBLASLt: {}",
            handle ? "" : dlerror());
    return handle;
  }
  for (const char* name : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
                           "/usr/local/cuda/lib/libcublasLt.so.13", "libcublasLt.so"}) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

Library load() {
  Library lib;
  void* const handle = open_library();
  if (!handle) return lib;
  lib.found = true;
  const auto bind = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    lib.found = lib.found && function;
  };
#define TEPHRA_BIND(name) bind(lib.name, "cublasLt" #name)
  TEPHRA_BIND(Create);
  TEPHRA_BIND(GetVersion);
  TEPHRA_BIND(Matmul);
  TEPHRA_BIND(MatmulAlgoGetHeuristic);
  TEPHRA_BIND(MatmulDescCreate);
  TEPHRA_BIND(MatmulDescSetAttribute);
  TEPHRA_BIND(MatrixLayoutCreate);
  TEPHRA_BIND(MatrixLayoutSetAttribute);
  TEPHRA_BIND(MatmulPreferenceCreate);
  TEPHRA_BIND(MatmulPreferenceSetAttribute);
  TEPHRA_BIND(MatmulPreferenceDestroy);
#undef TEPHRA_BIND
  const std::string given = file_setting("TEPHRA_CUBLASLT");
  require(lib.found || given.empty(), "TEPHRA_CUBLASLT: {} is no cuBLASLt of this version", given);
  return lib;
}

const Library& library() {
  static const Library found = load();
  return found;
}

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  check(cudaDeviceSynchronize(), what);  // names a kernel that failed before
  throw DeviceFailure(format("cuBLASLt: {} failed with status {}", what, static_cast<int>(status)),
                      "TEPHRA_GPU_SYNC=1 tells whether an earlier kernel was the cause");
}

constexpr int64_t kWorkspaceBytes = 32 << 20;

// What decides the algorithm: the shape, the types, and how far pointers are aligned.
using Key = std::array<int64_t, 18>;

uint32_t alignment_of(const void* p, int64_t stride_bytes, int64_t step_bytes) {
  const auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p)) |
                    static_cast<uint64_t>(stride_bytes) | static_cast<uint64_t>(step_bytes);
  for (uint32_t bytes = 256; bytes > 1; bytes /= 2) {
    if (bits % bytes == 0) return bytes;
  }
  return 1;
}

cudaDataType_t type_of(Number number) { return number == Number::f32 ? CUDA_R_32F : CUDA_R_16BF; }

struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  // none: the library knows none
};

cublasLtMatrixLayout_t layout(Number number, int64_t rows, int64_t cols, int64_t ld, int64_t batch,
                              int64_t step) {
  const Library& lt = library();
  cublasLtMatrixLayout_t made = nullptr;
  check_blas(lt.MatrixLayoutCreate(&made, type_of(number), static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(cols), ld),
             "describing a matrix");
  if (batch > 1) {
    const auto count = static_cast<int32_t>(batch);
    check_blas(
        lt.MatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "describing a batch");
    check_blas(lt.MatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                           sizeof step),
               "describing a batch");
  }
  return made;
}

struct Alignments {
  uint32_t a, b, c;
};

Alignments alignments(const Gemm& g) {
  const int64_t in = g.in == Number::f32 ? 4 : 2, out = g.out == Number::f32 ? 4 : 2;
  return {alignment_of(g.a, g.lda * in, g.a_step * in),
          alignment_of(g.b, g.ldb * in, g.b_step * in),
          std::min(alignment_of(g.c, g.ldc * out, g.c_step * out),
                   g.addend ? alignment_of(g.addend, 0, 0) : 256u)};
}

void set_bias(cublasLtMatmulDesc_t operation, const void* bias) {
  check_blas(library().MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                              sizeof bias),
             "describing a bias");
}

// Row-major C is column-major C^T = op(B)^T op(A)^T: the operands change places.
Plan make_plan(cublasLtHandle_t handle, const Gemm& g) {
  const Library& lt = library();
  Plan plan;
  check_blas(lt.MatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "describing a product");
  const cublasOperation_t first = g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  check_blas(
      lt.MatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
      "describing a product");
  check_blas(lt.MatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                       sizeof second),
             "describing a product");
  if (g.bias) {  // along the rows of C^T
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    check_blas(lt.MatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                         sizeof epilogue),
               "describing a bias");
    set_bias(plan.operation, g.bias);
  }
  plan.a =
      layout(g.in, g.transpose_b ? g.k : g.n, g.transpose_b ? g.n : g.k, g.ldb, g.batch, g.b_step);
  plan.b =
      layout(g.in, g.transpose_a ? g.m : g.k, g.transpose_a ? g.k : g.m, g.lda, g.batch, g.a_step);
  plan.c = layout(g.out, g.n, g.m, g.ldc, g.batch, g.c_step);

  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(lt.MatmulPreferenceCreate(&preference), "choosing an algorithm");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_blas(lt.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
               "choosing an algorithm");
  };
  const Alignments aligned = alignments(g);
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspaceBytes));
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));  // k is never split
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.b);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.a);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.c);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.c);
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  const cublasStatus_t status = lt.MatmulAlgoGetHeuristic(
      handle, plan.operation, plan.a, plan.b, plan.c, plan.c, preference, 1, &best, &count);
  if (status == CUBLAS_STATUS_SUCCESS && count > 0 && best.state == CUBLAS_STATUS_SUCCESS) {
    plan.algorithm = best.algo;
  }
  (void)lt.MatmulPreferenceDestroy(preference);
  return plan;
}

// One for each device; never destroyed.
struct Context {
  cublasLtHandle_t handle = nullptr;
  std::shared_ptr<Storage> workspace;
  std::map<Key, Plan> plans;

  explicit Context(Device device)
      : workspace(Storage::allocate(device, kWorkspaceBytes, Purpose::workspace)) {
    check_blas(library().Create(&handle), "starting the library");
  }
};

std::mutex mutex;

Context& context_of(Device device) {
  static auto* const contexts = new std::map<int, std::unique_ptr<Context>>;
  std::unique_ptr<Context>& found = (*contexts)[device.index];
  if (!found) found = std::make_unique<Context>(device);
  return *found;
}

Plan& plan_for(Context& context, const Gemm& g) {
  const Alignments aligned = alignments(g);
  const Key key = {g.m,
                   g.n,
                   g.k,
                   g.lda,
                   g.ldb,
                   g.ldc,
                   g.transpose_a,
                   g.transpose_b,
                   static_cast<int64_t>(g.in),
                   static_cast<int64_t>(g.out),
                   g.batch,
                   g.a_step,
                   g.b_step,
                   g.c_step,
                   aligned.a,
                   aligned.b,
                   aligned.c,
                   g.bias ? alignment_of(g.bias, 0, 0) : 0};
  const auto found = context.plans.find(key);
  if (found != context.plans.end()) return found->second;
  return context.plans.emplace(key, make_plan(context.handle, g)).first->second;
}

}  // namespace

std::string cublaslt_version() {
  if (!library().found) return "";
  const size_t version = library().GetVersion();
  return format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

bool gemm_cublaslt(Stream& stream, const Gemm& g) {
  if (!library().found) return false;
  const std::lock_guard lock(mutex);
  Context& context = context_of(stream.device());
  const Plan& plan = plan_for(context, g);
  if (!plan.algorithm) return false;
  if (g.bias) set_bias(plan.operation, g.bias);
  check_blas(
      library().Matmul(context.handle, plan.operation, &g.alpha, g.b, plan.a, g.a, plan.b, &g.beta,
                       g.addend ? g.addend : g.c, plan.c, g.c, plan.c, &*plan.algorithm,
                       context.workspace->data(), kWorkspaceBytes, stream.raw()),
      "a matrix product");
  return true;
}

}  // namespace tephra::gpu

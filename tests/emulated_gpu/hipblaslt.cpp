// SPDX-License-Identifier: Apache-2.0
// A stand-in for hipBLASLt, for tests of who calls it (TEPHRA_HIPBLASLT): the same functions, whose
// products are summed one after another in f32. It knows no algorithm for matrices of one column,
// as a library may. What it can show is that the calls say what is meant, not that AMD's library
// takes them: both sides are compiled against device/gpu/gemm_library.h.
#include <cstring>
#include <deque>

#include "tephra/base/number.h"
#include "tephra/device/gpu/gemm_library.h"

namespace tephra::gpu::lt {

struct OperationRoom {
  int32_t first = kAsItIs, second = kAsItIs;
  uint32_t epilogue = 1;  // none
  const void* bias = nullptr;
  DataType bias_type = kF32;
};
struct LayoutRoom {
  DataType type;
  int64_t rows, columns, stride;  // of columns one behind the other
  int32_t batch = 1;
  int64_t step = 0;
};
struct PreferenceRoom {
  uint64_t workspace = 1;
};

namespace {

constexpr auto kInvalid = static_cast<Status>(3);  // HIPBLAS_STATUS_INVALID_VALUE

template <class T>
Status set(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof to) return kInvalid;
  std::memcpy(&to, value, bytes);
  return kDone;
}

float element(const void* data, DataType type, int64_t at) {
  if (type == kF32) return static_cast<const float*>(data)[at];
  return float(static_cast<const bf16*>(data)[at]);
}

struct Product {
  OperationRoom op;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  LayoutRoom a_layout, b_layout, c_layout;

  float left(int64_t n, int64_t i, int64_t k) const {
    const int64_t at = op.first == kAsItIs ? k * a_layout.stride + i : i * a_layout.stride + k;
    return element(a, a_layout.type, n * a_layout.step + at);
  }
  float right(int64_t n, int64_t k, int64_t j) const {
    const int64_t at = op.second == kAsItIs ? j * b_layout.stride + k : k * b_layout.stride + j;
    return element(b, b_layout.type, n * b_layout.step + at);
  }
  void run() const {
    const int64_t rows = c_layout.rows, columns = c_layout.columns;
    const int64_t terms = op.first == kAsItIs ? a_layout.columns : a_layout.rows;
    for (int64_t each = 0; each < c_layout.batch * rows * columns; ++each) {
      const int64_t i = each % rows, j = each / rows % columns, n = each / rows / columns;
      float sum = 0;
      for (int64_t k = 0; k < terms; ++k) sum += left(n, i, k) * right(n, k, j);
      const int64_t to = n * c_layout.step + j * c_layout.stride + i;
      float value = alpha * sum;
      if (beta != 0) value += beta * element(c, c_layout.type, to);
      if (op.epilogue == kAddBias) value += element(op.bias, op.bias_type, i);
      if (c_layout.type == kF32) {
        static_cast<float*>(d)[to] = value;
      } else {
        static_cast<bf16*>(d)[to] = bf16(value);
      }
    }
  }
};

}  // namespace
}  // namespace tephra::gpu::lt

using namespace tephra::gpu::lt;  // NOLINT(google-build-using-namespace): the rest is C

extern "C" {
Status hipblasLtCreate(Handle* handle) {
  *handle = new int;
  return kDone;
}
Status hipblasLtDestroy(Handle handle) {
  delete static_cast<int*>(handle);
  return kDone;
}
Status hipblasLtGetVersion(Handle, int* version) {
  *version = 102;  // 0.1.2
  return kDone;
}
Status hipblasLtMatrixLayoutCreate(Layout* layout, DataType type, uint64_t rows, uint64_t columns,
                                   int64_t stride) {
  if ((type != kF32 && type != kBf16) || stride < static_cast<int64_t>(rows)) return kInvalid;
  *layout = new LayoutRoom{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride};
  return kDone;
}
Status hipblasLtMatrixLayoutSetAttribute(Layout layout, LayoutAttribute attribute,
                                         const void* value, size_t bytes) {
  if (attribute == kBatch) return set(layout->batch, value, bytes);
  return attribute == kStep ? set(layout->step, value, bytes) : kInvalid;
}
Status hipblasLtMatmulDescCreate(Operation* operation, Compute compute, DataType scale) {
  if (compute != kCompute || scale != kF32) return kInvalid;
  *operation = new OperationRoom;
  return kDone;
}
Status hipblasLtMatmulDescSetAttribute(Operation operation, OperationAttribute attribute,
                                       const void* value, size_t bytes) {
  switch (attribute) {
    case kFirst:
      return set(operation->first, value, bytes);
    case kSecond:
      return set(operation->second, value, bytes);
    case kEpilogue:
      return set(operation->epilogue, value, bytes);
    case kBias:
      return set(operation->bias, value, bytes);
    case kBiasType:
      return set(operation->bias_type, value, bytes);
  }
  return kInvalid;
}
Status hipblasLtMatmulPreferenceCreate(Preference* preference) {
  *preference = new PreferenceRoom;
  return kDone;
}
Status hipblasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceAttribute attribute,
                                             const void* value, size_t bytes) {
  return attribute == kMostWorkspace ? set(preference->workspace, value, bytes) : kInvalid;
}
Status hipblasLtMatmulPreferenceDestroy(Preference preference) {
  delete preference;
  return kDone;
}
Status hipblasLtMatmulAlgoGetHeuristic(Handle, Operation operation, Layout a, Layout b, Layout c,
                                       Layout, Preference preference, int most, Choice* choices,
                                       int* count) {
  const int64_t left = operation->first == kAsItIs ? a->columns : a->rows;
  const int64_t right = operation->second == kAsItIs ? b->rows : b->columns;
  if (most < 1 || preference->workspace != 0 || left != right || a->batch != c->batch ||
      b->batch != c->batch) {
    return kInvalid;
  }
  *count = c->columns == 1 ? 0 : 1;
  choices[0] = {};
  return kDone;
}
Status hipblasLtMatmul(Handle, Operation operation, const void* alpha, const void* a,
                       Layout a_layout, const void* b, Layout b_layout, const void* beta,
                       const void* c, Layout c_layout, void* d, Layout d_layout,
                       const Algorithm* algorithm, void*, size_t workspace_bytes,
                       hipStream_t stream) {
  if (!algorithm || workspace_bytes != 0 || c_layout != d_layout) return kInvalid;
  // What is recorded in a graph is run with it, again and again: products are kept for good.
  static auto* const kept = new std::deque<Product>;
  auto* const product = &kept->emplace_back(Product{*operation, *static_cast<const float*>(alpha),
                                                    *static_cast<const float*>(beta), a, b, c, d,
                                                    *a_layout, *b_layout, *c_layout});
  const auto run = [](void* data) { static_cast<const Product*>(data)->run(); };
  return hipLaunchHostFunc(stream, run, product) == hipSuccess ? kDone : kInvalid;
}
}

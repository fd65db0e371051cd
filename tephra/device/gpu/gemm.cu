// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/gpu/gemm.h"

#include "tephra/base/number.h"
#include "tephra/device/gpu/tile.h"
#include "tephra/device/memory.h"

namespace tephra::gpu {
namespace {

// The operand whose lines lie so, from row `first` of so many on.
template <bool kAlong, class T>
__device__ auto operand(const T* matrix, int64_t stride, int64_t first, int64_t rows, int64_t terms,
                        bool wide) {
  if constexpr (kAlong) {
    return along_terms(
        [=](int64_t i) { return first + i < rows ? matrix + (first + i) * stride : nullptr; },
        terms, wide);
  } else {
    return across_terms([=](int64_t k) { return matrix + k * stride + first; }, rows - first, wide);
  }
}

struct Wide {
  bool a, b;
};

template <class In, class Out, bool kTransposeA, bool kTransposeB>
__global__ void __launch_bounds__(kTileThreads) multiply(Gemm g, Wide wide) {
  using Product = LargeTile<In>;
  __shared__ typename Product::Buffers buffers;
  const int64_t row = int64_t{blockIdx.y} * Product::kSide;
  const int64_t column = int64_t{blockIdx.x} * Product::kSide;
  const In* a = static_cast<const In*>(g.a) + blockIdx.z * g.a_step;
  const In* b = static_cast<const In*>(g.b) + blockIdx.z * g.b_step;
  typename Product::Sums sums;
  Product::multiply(buffers, 0, g.k, operand<!kTransposeA>(a, g.lda, row, g.m, g.k, wide.a),
                    operand<kTransposeB>(b, g.ldb, column, g.n, g.k, wide.b), sums);
  Out* c = static_cast<Out*>(g.c) + blockIdx.z * g.c_step;
  const Out* addend = static_cast<const Out*>(g.addend ? g.addend : g.c) + blockIdx.z * g.c_step;
  sums.each([&](int i, int j, float value) {
    if (row + i >= g.m || column + j >= g.n) return;
    Out* to = c + (row + i) * g.ldc + column + j;
    const float bias = g.bias ? float(static_cast<const Out*>(g.bias)[column + j]) : 0.0f;
    const float before = g.beta != 0 ? g.beta * float(addend[to - c]) : 0.0f;
    *to = Out(g.alpha * value + before + bias);
  });
}

bool lies_wide(const void* data, int64_t stride, int64_t step) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % 8 == 0 && step % 8 == 0;
}

template <class In, class Out>
void run(Stream& stream, const Gemm& g) {
  constexpr int64_t kSide = LargeTile<In>::kSide;
  const Grid grid{.blocks = (g.n + kSide - 1) / kSide,
                  .blocks_y = (g.m + kSide - 1) / kSide,
                  .blocks_z = g.batch,
                  .threads = kTileThreads};
  const Wide wide{lies_wide(g.a, g.lda, g.a_step), lies_wide(g.b, g.ldb, g.b_step)};
  if (g.transpose_a) {
    stream.launch(g.transpose_b ? multiply<In, Out, true, true> : multiply<In, Out, true, false>,
                  grid, g, wide);
  } else {
    stream.launch(g.transpose_b ? multiply<In, Out, false, true> : multiply<In, Out, false, false>,
                  grid, g, wide);
  }
}

}  // namespace

void gemm_portable(Stream& stream, const Gemm& g) {
  // The rows of a grid are few: tall matrices go in strips.
  constexpr int64_t kMostRows = int64_t{65535} * LargeTile<float>::kSide;
  if (g.m > kMostRows && g.batch == 1) {
    Gemm first = g, rest = g;
    const int64_t in = g.in == Number::f32 ? 4 : 2, out = g.out == Number::f32 ? 4 : 2;
    first.m = kMostRows;
    rest.m -= kMostRows;
    rest.a = static_cast<const char*>(g.a) + kMostRows * (g.transpose_a ? 1 : g.lda) * in;
    rest.c = static_cast<char*>(g.c) + kMostRows * g.ldc * out;
    if (g.addend) rest.addend = static_cast<const char*>(g.addend) + kMostRows * g.ldc * out;
    gemm_portable(stream, first);
    return gemm_portable(stream, rest);
  }
  if (g.in == Number::f32) return run<float, float>(stream, g);
  if (g.out == Number::f32) return run<bf16, float>(stream, g);
  run<bf16, bf16>(stream, g);
}

void gemm(Stream& stream, const Gemm& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  if (g.k > 0 && !only_portable() && gemm_by_library(stream, g)) return;
  gemm_portable(stream, g);
}

namespace {

// The stretches of k for a C of m x n: enough tiles for a device of today, each long enough to pay.
int64_t stretches_of(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kSide = 128, kTiles = 128, kShortest = 256, kMost = 32;
  const int64_t tiles = ((m + kSide - 1) / kSide) * ((n + kSide - 1) / kSide);
  int64_t count = 1;
  while (count < kMost && 2 * count * tiles <= kTiles && k % (2 * count) == 0 &&
         k / (2 * count) >= kShortest) {
    count *= 2;
  }
  return count;
}

__global__ void add_stretches(const float* parts, int64_t count, int64_t rows, int64_t cols,
                              float* c, int64_t ldc, float beta) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, size = rows * cols;
  if (i >= size) return;
  float sum = 0;
#pragma unroll 4
  for (int64_t s = 0; s < count; ++s) sum += parts[s * size + i];
  float* to = c + i / cols * ldc + i % cols;
  *to = sum + (beta != 0 ? beta * *to : 0.0f);
}

}  // namespace

void gemm_by_stretches(Stream& stream, const Gemm& g) {
  const int64_t count = stretches_of(g.m, g.n, g.k);
  if (count == 1 || g.batch != 1 || g.out != Number::f32 || g.bias || g.addend || g.alpha != 1) {
    return gemm(stream, g);
  }
  const auto parts = Storage::allocate(stream.device(), count * g.m * g.n * 4, Purpose::workspace);
  Gemm each = g;
  each.k = g.k / count;
  each.c = parts->data();
  each.ldc = g.n;
  each.beta = 0;
  each.batch = count;
  each.a_step = each.k * (g.transpose_a ? g.lda : 1);
  each.b_step = each.k * (g.transpose_b ? 1 : g.ldb);
  each.c_step = g.m * g.n;
  gemm(stream, each);
  stream.launch(add_stretches, {.blocks = (g.m * g.n + 255) / 256, .threads = 256},
                static_cast<const float*>(parts->data()), count, g.m, g.n, static_cast<float*>(g.c),
                g.ldc, g.beta);
}

std::vector<std::pair<std::string, std::string>> libraries() {
  const std::string version = gemm_library_version();
  const char* const none = "not opened: our own kernels instead";
  if (only_portable()) return {{gemm_library_name(), "left out: TEPHRA_GPU_PORTABLE is set"}};
  return {{gemm_library_name(), version.empty() ? none : version}};
}

}  // namespace tephra::gpu

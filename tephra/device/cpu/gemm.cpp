// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"

namespace tephra::cpu {
namespace {

// oneDNN threads with OpenMP; the setting is per calling thread.
void use_one_library_thread() {
  thread_local const bool once = (omp_set_num_threads(1), true);
  (void)once;
}

void product(const Gemm<float, float>& g) {
  use_one_library_thread();
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a,
                 g.lda, g.b, g.ldb, g.accumulate ? 1.0f : 0.0f, g.c, g.ldc);
  TEPHRA_ASSERT(status == dnnl_success, "oneDNN accepts every shape that passes our checks");
}

// Plain loops in an order that lets the compiler vectorise over n.
void product(const Gemm<double, double>& g) {
  std::vector<double> row(static_cast<size_t>(g.n));
  for (int64_t i = 0; i < g.m; ++i) {
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t p = 0; p < g.k; ++p) {
      const double a = g.transpose_a ? g.a[p * g.lda + i] : g.a[i * g.lda + p];
      if (g.transpose_b) {
        for (int64_t j = 0; j < g.n; ++j) row[j] += a * g.b[j * g.ldb + p];
      } else {
        for (int64_t j = 0; j < g.n; ++j) row[j] += a * g.b[p * g.ldb + j];
      }
    }
    double* c = g.c + i * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) c[j] = g.accumulate ? c[j] + row[j] : row[j];
  }
}

const float* widen(const bf16* p, int64_t rows, int64_t cols, int64_t ld, std::vector<float>& out) {
  out.resize(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r) {
    const bf16* from = p + r * ld;
    float* to = out.data() + r * cols;
    for (int64_t c = 0; c < cols; ++c) to[c] = from[c];
  }
  return out.data();
}

// Both operands of the tile are widened, multiplied in float, and rounded once.
template <class Out>
void product(const Gemm<bf16, Out>& g) {
  thread_local std::vector<float> a, b, c;
  const int64_t a_cols = g.transpose_a ? g.m : g.k;
  const int64_t b_cols = g.transpose_b ? g.k : g.n;
  Gemm<float, float> wide{
      g.m,   g.n,    g.k,           widen(g.a, g.transpose_a ? g.k : g.m, a_cols, g.lda, a),
      a_cols, g.transpose_a, widen(g.b, g.transpose_b ? g.n : g.k, b_cols, g.ldb, b),
      b_cols, g.transpose_b, nullptr, 0};
  if constexpr (std::is_same_v<Out, float>) {
    wide.c = g.c;
    wide.ldc = g.ldc;
    wide.accumulate = g.accumulate;
    product(wide);
  } else {
    c.resize(static_cast<size_t>(g.m * g.n));
    wide.c = c.data();
    wide.ldc = g.n;
    product(wide);
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        Out& out = g.c[i * g.ldc + j];
        const float sum = c[i * g.n + j];
        out = Out(g.accumulate ? float(out) + sum : sum);
      }
    }
  }
}

}  // namespace

template <class In, class Out>
void gemm_serial(const Gemm<In, Out>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    if (g.accumulate) return;
    for (int64_t i = 0; i < g.m; ++i) std::fill_n(g.c + i * g.ldc, g.n, Out(0));
    return;
  }
  product(g);
}

template <class In, class Out>
void gemm(const Gemm<In, Out>& g) {
  // 256 x 512 tiles keep oneDNN within some percent of its best and leave enough to share out.
  const int64_t tile_m = std::min<int64_t>(g.m, 256);
  const int64_t tile_n = std::min<int64_t>(g.n, 512);
  if (g.m == 0 || g.n == 0) return;
  const int64_t columns = ceil_div(g.n, tile_n);
  parallel_for(ceil_div(g.m, tile_m) * columns, 1, [&](int64_t tile, int64_t) {
    const int64_t i = tile / columns * tile_m;
    const int64_t j = tile % columns * tile_n;
    Gemm<In, Out> part = g;
    part.m = std::min(tile_m, g.m - i);
    part.n = std::min(tile_n, g.n - j);
    part.a += g.transpose_a ? i : i * g.lda;
    part.b += g.transpose_b ? j * g.ldb : j;
    part.c += i * g.ldc + j;
    gemm_serial(part);
  });
}

#define TEPHRA_INSTANTIATE(In, Out)                  \
  template void gemm(const Gemm<In, Out>&);          \
  template void gemm_serial(const Gemm<In, Out>&);
TEPHRA_INSTANTIATE(double, double)
TEPHRA_INSTANTIATE(float, float)
TEPHRA_INSTANTIATE(bf16, bf16)
TEPHRA_INSTANTIATE(bf16, float)
#undef TEPHRA_INSTANTIATE

}  // namespace tephra::cpu

// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
#include "tephra/device/cpu/gemm_kernels.h"
#include "tephra/device/cpu/scratch.h"

namespace tephra::cpu {
namespace {

thread_local RowClass all_rows = RowClass::by_count;

// oneDNN threads with OpenMP; the setting is per calling thread.
void use_one_library_thread() {
  thread_local const bool once = (omp_set_num_threads(1), use_signal_stack(), true);
  (void)once;
}

void library_product(const Gemm<float, float>& g) {
  use_one_library_thread();
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a,
                 g.lda, g.b, g.ldb, g.accumulate ? 1.0f : 0.0f, g.c, g.ldc);
  TEPHRA_ASSERT(status == dnnl_success, "oneDNN accepts every shape that passes our checks");
}

// The least number of rows that oneDNN computes by the method of many rows, the rest of them zero.
void padded_product(const Gemm<float, float>& g) {
  thread_local Scratch<float> rows, sums;
  float* a = rows.get(kDecodeRows * g.k);
  float* c = sums.get(kDecodeRows * g.n);
  for (int64_t r = 0; r < g.m; ++r) std::copy_n(g.a + r * g.lda, g.k, a + r * g.k);
  std::fill(a + g.m * g.k, a + kDecodeRows * g.k, 0.0f);
  library_product({kDecodeRows, g.n, g.k, a, g.k, false, g.b, g.ldb, true, c, g.n});
  write_sums(c, g);
}

// Whether oneDNN's products give a row the same bits in any company: with AVX-512 they do, with
// AVX2 they do not; others were not tried.
bool library_keeps_rows_apart() {
  static const bool apart =
      (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
  return apart;
}

// Whether our own dot products compute it: x W^T of few rows, and of any number where the weights
// are bf16 beside x in float, which oneDNN would need widened and packed for every tile. It packs
// weights in float, too, which costs more than it gains where rows are shared out to experts, so
// many rows are dot products but for short ones, whose sums take long to end.
template <class In, class Out, class W>
bool dot_products(const Gemm<In, Out, W>& g) {
  constexpr int64_t kShort = 512;
  if (g.transpose_a || !g.transpose_b) return false;
  if (!std::is_same_v<In, W>) return true;
  if (g.rows == RowClass::many) {
    return !library_keeps_rows_apart() || (std::is_same_v<In, float> && g.k >= kShort);
  }
  return g.rows == RowClass::few || (g.rows == RowClass::by_count && g.m < kDecodeRows);
}

// Few rows of a batch that oneDNN computes.
bool padded_rows(const Gemm<float, float>& g) {
  const bool more = g.rows == RowClass::tall || g.rows == RowClass::many;
  return more && g.m < kDecodeRows && !g.transpose_a && g.transpose_b;
}

void product(const Gemm<double, double>& g) { gemm_f64(g); }

void product(const Gemm<float, float>& g) {
  if (dot_products(g)) return dot_rows(g);
  if (padded_rows(g)) return padded_product(g);
  library_product(g);
  if (g.bias != nullptr) add_bias(g);
}

// Operands of the tile are widened a stretch of K at a time, multiplied in float, and the sums are
// rounded once.
template <class Out>
void product(const Gemm<bf16, Out>& g) {
  if (dot_products(g)) return dot_rows(g);
  constexpr int64_t kStretch = 2048;  // keeps the widened tile near the cache, whatever K is
  thread_local Scratch<float> wide_a, wide_b, tile;
  float* sums = tile.get(g.m * g.n);
  const int64_t longest = std::min(kStretch, g.k);
  float* a = wide_a.get(g.m * longest);
  float* b = wide_b.get(g.n * longest);
  for (int64_t p = 0; p < g.k; p += kStretch) {
    const int64_t k = std::min(kStretch, g.k - p);
    const int64_t a_cols = g.transpose_a ? g.m : k;
    const int64_t b_cols = g.transpose_b ? k : g.n;
    widen(g.a + (g.transpose_a ? p * g.lda : p), g.lda, g.transpose_a ? k : g.m, a_cols, a);
    widen(g.b + (g.transpose_b ? p : p * g.ldb), g.ldb, g.transpose_b ? g.n : k, b_cols, b);
    product(Gemm<float, float>{g.m, g.n, k, a, a_cols, g.transpose_a, b, b_cols, g.transpose_b,
                               sums, g.n, /*accumulate=*/p > 0,
                               /*bias=*/nullptr, RowClass::tall});
  }
  write_sums(sums, g);
}

void product(const Gemm<float, float, bf16>& g) {
  TEPHRA_ASSERT(g.transpose_b && !g.transpose_a, "weights in bf16 are for x W^T");
  dot_rows(g);
}

// Nearly equal pieces of at most `largest` (and then some), none of them a sliver: oneDNN computes
// fewer than 16 rows, or one column, by another method.
struct Cut {
  int64_t size, piece, count;

  Cut(int64_t total, int64_t largest) : size(total) {
    constexpr int64_t kSliver = 16;
    const int64_t even = ceil_div(total, std::max<int64_t>(1, ceil_div(total, largest)));
    piece = std::max<int64_t>(1, ceil_div(even, kSliver) * kSliver);
    count = total == 0 ? 0 : std::max<int64_t>(1, ceil_div(total - kSliver + 1, piece));
  }
  int64_t begin(int64_t i) const { return i * piece; }
  int64_t length(int64_t i) const { return (i + 1 == count ? size : begin(i + 1)) - begin(i); }
};

struct Tiles {
  Cut rows, columns;

  template <class In, class Out, class W>
  Tiles(const Gemm<In, Out, W>& g, int64_t tile_rows, int64_t tile_columns)
      : rows(g.m, tile_rows), columns(g.n, tile_columns) {}
  int64_t count() const { return rows.count * columns.count; }
};

// Columns of a tile, by (n, k) within a class: 512 is where oneDNN's packing of a tile is paid off;
// dot products only need enough work to be worth a thread.
template <class In, class Out, class W>
int64_t tile_columns(const Gemm<In, Out, W>& g) {
  if (!dot_products(g)) return 512;
  return std::max<int64_t>(16, (1 << 15) / std::max<int64_t>(1, g.k));
}

// Tall tiles are faster, but leave something for every thread of a large machine.
template <class In, class Out, class W>
std::vector<Tiles> cut_all(std::span<const Gemm<In, Out, W>> products) {
  constexpr int64_t kEnough = 8, kLeastRows = 128;
  std::vector<Tiles> tiles;
  for (int64_t rows = 512;; rows /= 2) {
    tiles.clear();
    int64_t total = 0;
    for (const auto& g : products) {
      tiles.emplace_back(g, rows, tile_columns(g));
      total += tiles.back().count();
    }
    if (total >= kEnough || rows <= kLeastRows) return tiles;
  }
}

template <class In, class Out, class W>
Gemm<In, Out, W> tile_of(const Gemm<In, Out, W>& g, const Tiles& tiles, int64_t index) {
  const int64_t row = index / tiles.columns.count, column = index % tiles.columns.count;
  const int64_t i = tiles.rows.begin(row), j = tiles.columns.begin(column);
  Gemm<In, Out, W> part = g;
  part.m = tiles.rows.length(row);
  part.n = tiles.columns.length(column);
  part.a += g.transpose_a ? i : i * g.lda;
  part.b += g.transpose_b ? j * g.ldb : j;
  part.c += i * g.ldc + j;
  if (g.bias != nullptr) part.bias += j;
  return part;
}

}  // namespace

template <class In, class Out, class W>
void gemm_serial(const Gemm<In, Out, W>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k > 0) return product(g);
  for (int64_t i = 0; i < g.m; ++i) {
    Out* c = g.c + i * g.ldc;
    if (!g.accumulate) std::fill_n(c, g.n, Out(0));
    for (int64_t j = 0; g.bias != nullptr && j < g.n; ++j) {
      c[j] = Out(acc_t<In>(c[j]) + acc_t<In>(g.bias[j]));
    }
  }
}

RowClassScope::RowClassScope(RowClass rows) : before_(all_rows) { all_rows = rows; }
RowClassScope::~RowClassScope() { all_rows = before_; }

RowClass row_class(int64_t rows) {
  if (all_rows != RowClass::by_count) return all_rows;
  return rows < kDecodeRows ? RowClass::few : RowClass::tall;
}

template <class In, class Out, class W>
void gemm(std::span<const Gemm<In, Out, W>> given) {
  std::vector<Gemm<In, Out, W>> products(given.begin(), given.end());
  for (auto& g : products) {
    if (g.rows == RowClass::by_count) g.rows = row_class(g.m);
  }
  const std::vector<Tiles> tiles = cut_all(std::span<const Gemm<In, Out, W>>(products));
  std::vector<int64_t> first{0};  // tile of each product
  for (const Tiles& t : tiles) first.push_back(first.back() + t.count());
  parallel_for(first.back(), 1, [&](int64_t at, int64_t) {
    const auto next = std::upper_bound(first.begin(), first.end(), at);
    const auto p = static_cast<size_t>(next - first.begin() - 1);
    gemm_serial(tile_of(products[p], tiles[p], at - first[p]));
  });
}

template <class In, class Out, class W>
void gemm(const Gemm<In, Out, W>& g) {
  gemm(std::span<const Gemm<In, Out, W>>(&g, 1));
}

#define TEPHRA_INSTANTIATE(In, Out, W)                   \
  template void gemm(const Gemm<In, Out, W>&);           \
  template void gemm(std::span<const Gemm<In, Out, W>>); \
  template void gemm_serial(const Gemm<In, Out, W>&);
TEPHRA_INSTANTIATE(double, double, double)
TEPHRA_INSTANTIATE(float, float, float)
TEPHRA_INSTANTIATE(float, float, bf16)
TEPHRA_INSTANTIATE(bf16, bf16, bf16)
TEPHRA_INSTANTIATE(bf16, float, bf16)
#undef TEPHRA_INSTANTIATE

}  // namespace tephra::cpu

// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/cpu/gemm_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/device/cpu/gemm_kernels_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::cpu::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

// What one load takes from a row: a vector of floats, or of bf16 with its even and odd elements
// widened apart by one operation each.
struct FloatPiece {
  Vec<float> all;
};
struct Bf16Piece {
  Vec<float> even, odd;
};

// What a row of In, or a weight in bf16 beside it, gives.
template <class In, class W>
HWY_INLINE auto load_piece(const W* p) {
  if constexpr (std::is_same_v<In, float>) {
    return FloatPiece{load(p)};
  } else {
    const Tag<float> d;
    const hn::Repartition<uint32_t, Tag<float>> d32;
    const hn::Repartition<uint16_t, Tag<float>> d16;
    const auto bits = hn::BitCast(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p)));
    return Bf16Piece{hn::BitCast(d, hn::ShiftLeft<16>(bits)),
                     hn::BitCast(d, hn::And(bits, hn::Set(d32, 0xffff0000u)))};
  }
}
// The first n elements, then zeros.
template <class In, class W>
HWY_INLINE auto load_piece_n(const W* p, int64_t n) {
  HWY_ALIGN W buffer[HWY_MAX_BYTES / sizeof(W)] = {};
  std::memcpy(static_cast<void*>(buffer), p, static_cast<size_t>(n) * sizeof(W));
  return load_piece<In>(buffer);
}

HWY_INLINE Vec<float> add_product(FloatPiece a, FloatPiece b, Vec<float> sum) {
  return hn::MulAdd(a.all, b.all, sum);
}
HWY_INLINE Vec<float> add_product(Bf16Piece a, Bf16Piece b, Vec<float> sum) {
  return hn::MulAdd(a.odd, b.odd, hn::MulAdd(a.even, b.even, sum));
}

// Asks for the same columns of the rows of B that come next, into the second cache
// (docs/decisions/0048-weights-are-asked-for-ahead.md). Short rows are asked for four blocks ahead.
template <int kCols, class W>
class RowsAhead {
 public:
  HWY_INLINE RowsAhead(const W* b, int64_t ldb, int64_t j)
      : stride_(static_cast<uintptr_t>(ldb) * sizeof(W)),
        first_(
            reinterpret_cast<uintptr_t>(b) +
            static_cast<uintptr_t>(j + (ldb * kCols * int64_t{sizeof(W)} < 4096 ? 4 : 1) * kCols) *
                stride_) {}

  HWY_INLINE void ask(int64_t column) const {
    const uintptr_t at = static_cast<uintptr_t>(column) * sizeof(W);
    if (at % 64 != 0) return;
    for (int c = 0; c < kCols; ++c) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): may lie behind the matrix, never read through
      __builtin_prefetch(reinterpret_cast<const void*>(first_ + c * stride_ + at), 0, 2);
    }
  }

 private:
  uintptr_t stride_, first_;
};

// kRows rows of A by kCols rows of B (stored transposed). Every element has an accumulator of its
// own, so its bits do not depend on the block it is computed in.
template <int kRows, int kCols, class In, class Out, class W>
HWY_INLINE void dot_block(const Gemm<In, Out, W>& g, int64_t i, int64_t j) {
  const RowsAhead<kCols, W> ahead(g.b, g.ldb, j);
  Vec<In> sums[kRows][kCols];
  for (auto& row : sums) {
    for (auto& sum : row) sum = set<In>(0);
  }
  const auto add = [&](auto&& load_at) HWY_ATTR {
    decltype(load_piece<In>(g.a)) a[kRows];
    for (int r = 0; r < kRows; ++r) a[r] = load_at(g.a + (i + r) * g.lda);
    for (int c = 0; c < kCols; ++c) {
      const auto b = load_at(g.b + (j + c) * g.ldb);
      for (int r = 0; r < kRows; ++r) sums[r][c] = add_product(a[r], b, sums[r][c]);
    }
  };
  // NOLINTNEXTLINE(bugprone-sizeof-expression): 1 or 2, by In
  const int64_t step = lanes<In>() * static_cast<int64_t>(sizeof(float) / sizeof(In));
  int64_t p = 0;
  for (; p + step <= g.k; p += step) {
    if (i == 0) ahead.ask(p);  // later rows of A find them in a cache
    add([&](const auto* row) HWY_ATTR { return load_piece<In>(row + p); });
  }
  if (p < g.k) add([&](const auto* row) HWY_ATTR { return load_piece_n<In>(row + p, g.k - p); });
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kCols; ++c) {
      acc_t<In> sum = sum_of_lanes<In>(sums[r][c]);
      if (g.bias != nullptr) sum += acc_t<In>(g.bias[j + c]);
      Out& out = g.c[(i + r) * g.ldc + j + c];
      out = Out(g.accumulate ? acc_t<In>(out) + sum : sum);
    }
  }
}

// The most rows of A in a block of four columns. Their sums, themselves (bf16 in two halves) and a
// weight fill 32 registers; before AVX-512 there are 16, and what is fastest was measured.
template <class In, class W>
constexpr int most_rows() {
  if (HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3) return std::is_same_v<In, W> ? 4 : 3;
  return std::is_same_v<In, bf16> ? 4 : 6;
}

// A block of `rows` rows, at most kRows.
template <int kRows, int kCols, class In, class Out, class W>
HWY_INLINE void dot_block_of(int64_t rows, const Gemm<In, Out, W>& g, int64_t i, int64_t j) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return dot_block_of<kRows - 1, kCols>(rows, g, i, j);
  }
  dot_block<kRows, kCols>(g, i, j);
}

// All rows, in nearly equal blocks: `rows` in each, and one more in the first `longer`.
template <int kCols, class In, class Out, class W>
HWY_INLINE void dot_column_block(const Gemm<In, Out, W>& g, int64_t j, int64_t rows,
                                 int64_t longer) {
  for (int64_t i = 0; i < g.m; --longer) {
    const int64_t of_block = rows + (longer > 0 ? 1 : 0);
    dot_block_of<most_rows<In, W>(), kCols>(of_block, g, i, j);
    i += of_block;
  }
}

template <class In, class Out, class W>
void dot_rows_of(const Gemm<In, Out, W>& g) {
  const int64_t blocks = ceil_div(g.m, int64_t{most_rows<In, W>()});
  const int64_t rows = g.m / blocks, longer = g.m % blocks;
  int64_t j = 0;
  for (; j + 4 <= g.n; j += 4) dot_column_block<4>(g, j, rows, longer);
  for (; j < g.n; ++j) dot_column_block<1>(g, j, rows, longer);
}
void dot_rows_f32(const Gemm<float, float>& g) { dot_rows_of(g); }
void dot_rows_f32_bf16(const Gemm<float, float, bf16>& g) { dot_rows_of(g); }
void dot_rows_bf16(const Gemm<bf16, bf16>& g) { dot_rows_of(g); }
void dot_rows_bf16_f32(const Gemm<bf16, float>& g) { dot_rows_of(g); }

// kRows rows of A by one panel of B: [k][width], width at most two vectors.
template <int kRows>
HWY_INLINE void f64_block(const Gemm<double, double>& g, const double* panel, int64_t i,
                          int64_t j) {
  const int64_t step = lanes<double>();
  const int64_t row_step = g.transpose_a ? 1 : g.lda;
  const int64_t k_step = g.transpose_a ? g.lda : 1;
  const double* a = g.a + i * row_step;
  Vec<double> sums[kRows][2];
  for (auto& row : sums) row[0] = row[1] = set<double>(0);
  for (int64_t p = 0; p < g.k; ++p) {
    const auto b0 = load(panel + p * 2 * step);
    const auto b1 = load(panel + p * 2 * step + step);
    for (int r = 0; r < kRows; ++r) {
      const auto v = set<double>(a[r * row_step + p * k_step]);
      sums[r][0] = hn::MulAdd(v, b0, sums[r][0]);
      sums[r][1] = hn::MulAdd(v, b1, sums[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int half = 0; half < 2; ++half) {
      const int64_t at = j + half * step;
      const int64_t n = std::min(step, g.n - at);
      if (n <= 0) continue;
      auto sum = sums[r][half];
      if (g.bias != nullptr) sum = hn::Add(sum, load_up_to(g.bias + at, n));
      write_up_to(g.c + (i + r) * g.ldc + at, sum, n, g.accumulate);
    }
  }
}

void gemm_f64_loops(const Gemm<double, double>& g) {
  const int64_t width = 2 * lanes<double>();
  std::vector<double> panel(static_cast<size_t>(g.k * width));
  for (int64_t j = 0; j < g.n; j += width) {
    const int64_t columns = std::min(width, g.n - j);
    std::fill(panel.begin(), panel.end(), 0.0);
    for (int64_t p = 0; p < g.k; ++p) {
      for (int64_t c = 0; c < columns; ++c) {
        panel[p * width + c] = g.transpose_b ? g.b[(j + c) * g.ldb + p] : g.b[p * g.ldb + j + c];
      }
    }
    int64_t i = 0;
    for (; i + 4 <= g.m; i += 4) f64_block<4>(g, panel.data(), i, j);
    for (; i < g.m; ++i) f64_block<1>(g, panel.data(), i, j);
  }
}

void widen_rows(const bf16* from, int64_t ld, int64_t rows, int64_t cols, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for_each_vector<bf16>(cols, [&](int64_t c, int64_t n) HWY_ATTR {
      store_up_to(to + r * cols + c, load_up_to(from + r * ld + c, n), n);
    });
  }
}

template <class In, class Out>
HWY_INLINE void write_sums_of(const float* sums, const Gemm<In, Out>& g) {
  for (int64_t r = 0; r < g.m; ++r) {
    for_each_vector<Out>(g.n, [&](int64_t c, int64_t n) HWY_ATTR {
      auto sum = load_up_to(sums + r * g.n + c, n);
      if (g.bias != nullptr) sum = hn::Add(sum, load_up_to(g.bias + c, n));
      write_up_to(g.c + r * g.ldc + c, sum, n, g.accumulate);
    });
  }
}
void write_sums_f32(const float* sums, const Gemm<float, float>& g) { write_sums_of(sums, g); }
void write_sums_bf16(const float* sums, const Gemm<bf16, bf16>& g) { write_sums_of(sums, g); }
void write_sums_bf16_f32(const float* sums, const Gemm<bf16, float>& g) { write_sums_of(sums, g); }

void add_bias_f32(const Gemm<float, float>& g) {
  for (int64_t r = 0; r < g.m; ++r) {
    for_each_vector<float>(g.n, [&](int64_t c, int64_t n) HWY_ATTR {
      write_up_to(g.c + r * g.ldc + c, load_up_to(g.bias + c, n), n, /*accumulate=*/true);
    });
  }
}

}  // namespace tephra::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::cpu {
namespace {
HWY_EXPORT(dot_rows_f32);
HWY_EXPORT(dot_rows_f32_bf16);
HWY_EXPORT(dot_rows_bf16);
HWY_EXPORT(dot_rows_bf16_f32);
HWY_EXPORT(gemm_f64_loops);
HWY_EXPORT(widen_rows);
HWY_EXPORT(write_sums_f32);
HWY_EXPORT(write_sums_bf16);
HWY_EXPORT(write_sums_bf16_f32);
HWY_EXPORT(add_bias_f32);
}  // namespace

template <>
void dot_rows(const Gemm<float, float>& g) {
  HWY_DYNAMIC_DISPATCH(dot_rows_f32)(g);
}
template <>
void dot_rows(const Gemm<float, float, bf16>& g) {
  HWY_DYNAMIC_DISPATCH(dot_rows_f32_bf16)(g);
}
template <>
void dot_rows(const Gemm<bf16, bf16>& g) {
  HWY_DYNAMIC_DISPATCH(dot_rows_bf16)(g);
}
template <>
void dot_rows(const Gemm<bf16, float>& g) {
  HWY_DYNAMIC_DISPATCH(dot_rows_bf16_f32)(g);
}

void gemm_f64(const Gemm<double, double>& g) { HWY_DYNAMIC_DISPATCH(gemm_f64_loops)(g); }

void widen(const bf16* from, int64_t ld, int64_t rows, int64_t cols, float* to) {
  HWY_DYNAMIC_DISPATCH(widen_rows)(from, ld, rows, cols, to);
}

void add_bias(const Gemm<float, float>& g) { HWY_DYNAMIC_DISPATCH(add_bias_f32)(g); }

template <>
void write_sums(const float* sums, const Gemm<float, float>& g) {
  HWY_DYNAMIC_DISPATCH(write_sums_f32)(sums, g);
}
template <>
void write_sums(const float* sums, const Gemm<bf16, bf16>& g) {
  HWY_DYNAMIC_DISPATCH(write_sums_bf16)(sums, g);
}
template <>
void write_sums(const float* sums, const Gemm<bf16, float>& g) {
  HWY_DYNAMIC_DISPATCH(write_sums_bf16_f32)(sums, g);
}

}  // namespace tephra::cpu
#endif

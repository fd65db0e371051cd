// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/newton_schulz.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/optim/newton_schulz_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

constexpr int64_t kTile = 16;
constexpr int64_t kQuad = 4;

template <class T>
HWY_INLINE void round_row(T* row, int64_t n) {
  for (int64_t i = 0; i < n; ++i) row[i] = static_cast<T>(static_cast<float>(bf16(row[i])));
}

// to[j][i] = from[i][j] for four rows and columns.
HWY_INLINE void transpose_quad(const float* from, int64_t from_ld, float* to, int64_t to_ld) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> wide;
  const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + from_ld);
  const auto r2 = hn::LoadU(d, from + 2 * from_ld), r3 = hn::LoadU(d, from + 3 * from_ld);
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, to + to_ld);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, to + 2 * to_ld);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, to + 3 * to_ld);
}
HWY_INLINE void transpose_quad(const double* from, int64_t from_ld, double* to, int64_t to_ld) {
  for (int64_t i = 0; i < kQuad; ++i) {
    for (int64_t j = 0; j < kQuad; ++j) to[j * to_ld + i] = from[i * from_ld + j];
  }
}

// A small tile, which stays in the first cache both ways.
template <class T>
HWY_INLINE void transpose_tile(const Transpose<T>& k) {
  const int64_t rows = k.rows / kQuad * kQuad, cols = k.cols / kQuad * kQuad;
  for (int64_t j = 0; j < cols; j += kQuad) {
    for (int64_t i = 0; i < rows; i += kQuad) {
      transpose_quad(k.from + i * k.from_ld + j, k.from_ld, k.to + j * k.to_ld + i, k.to_ld);
    }
  }
  for (int64_t i = 0; i < k.rows; ++i) {
    for (int64_t j = i < rows ? cols : 0; j < k.cols; ++j) {
      k.to[j * k.to_ld + i] = k.from[i * k.from_ld + j];
    }
  }
}

template <class T>
HWY_INLINE void transpose_block(const Transpose<T>& k) {
  for (int64_t i = 0; i < k.rows; i += kTile) {
    for (int64_t j = 0; j < k.cols; j += kTile) {
      transpose_tile(Transpose<T>{k.from + i * k.from_ld + j, k.from_ld,
                                  std::min(kTile, k.rows - i), std::min(kTile, k.cols - j),
                                  k.to + j * k.to_ld + i, k.to_ld});
    }
  }
}
void transpose_f32(const Transpose<float>& k) { transpose_block(k); }
void transpose_f64(const Transpose<double>& k) { transpose_block(k); }

// c[j][i] = c[i][j] for rows [i0, i1) and columns [j0, j1), where j > i.
template <class T>
HWY_INLINE void mirror_tile(T* c, int64_t ld, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  if (j0 >= i1) {
    transpose_tile(Transpose<T>{c + i0 * ld + j0, ld, i1 - i0, j1 - j0, c + j0 * ld + i0, ld});
    return;
  }
  for (int64_t j = j0; j < j1; ++j) {
    for (int64_t i = i0; i < std::min(i1, j); ++i) c[j * ld + i] = c[i * ld + j];
  }
}

template <class T>
HWY_INLINE void mirror(const SquareBlock<T>& k) {
  const int64_t row_end = k.row + k.rows, col_end = k.col + k.cols;
  for (int64_t i = k.row; i < row_end; i += kTile) {
    for (int64_t j = k.row == k.col ? i : k.col; j < col_end; j += kTile) {
      mirror_tile(k.c, k.ld, i, std::min(i + kTile, row_end), j, std::min(j + kTile, col_end));
    }
  }
}

template <class T>
HWY_INLINE void gram(const SquareBlock<T>& k) {
  for (int64_t r = 0; k.round_to_bf16 && r < k.rows; ++r) {
    round_row(k.c + (k.row + r) * k.ld + k.col, k.cols);
  }
  mirror(k);
}
void gram_f32(const SquareBlock<float>& k) { gram(k); }
void gram_f64(const SquareBlock<double>& k) { gram(k); }

template <class T>
HWY_INLINE void polynomial(const SquareBlock<T>& k, const Polynomial<T>& p) {
  const auto b = set<T>(static_cast<T>(p.b)), c = set<T>(static_cast<T>(p.c_factor));
  const bool diagonal = k.row == k.col;
  for (int64_t r = 0; r < k.rows; ++r) {
    const int64_t first = diagonal ? r / kTile * kTile : 0;  // what lies below is mirrored
    T* row = k.c + (k.row + r) * k.ld + k.col;
    const T* gram_row = p.gram + (k.row + r) * k.ld + k.col;
    for_each_vector<T>(k.cols - first, [&](int64_t i, int64_t n) HWY_ATTR {
      const auto square = hn::Mul(c, load_up_to(row + first + i, n));
      store_up_to(row + first + i, hn::MulAdd(b, load_up_to(gram_row + first + i, n), square), n);
    });
    if (k.round_to_bf16) round_row(row + first, k.cols - first);
    if (diagonal) row[r] += static_cast<T>(p.diagonal);
  }
  mirror(k);
}
void polynomial_f32(const SquareBlock<float>& k, const Polynomial<float>& p) { polynomial(k, p); }
void polynomial_f64(const SquareBlock<double>& k, const Polynomial<double>& p) { polynomial(k, p); }

template <class T>
HWY_INLINE void round_rows(T* x, int64_t ld, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) round_row(x + r * ld, cols);
}
void round_f32(float* x, int64_t ld, int64_t rows, int64_t cols) { round_rows(x, ld, rows, cols); }
void round_f64(double* x, int64_t ld, int64_t rows, int64_t cols) { round_rows(x, ld, rows, cols); }

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(gram_f32);
HWY_EXPORT(gram_f64);
HWY_EXPORT(polynomial_f32);
HWY_EXPORT(polynomial_f64);
HWY_EXPORT(transpose_f32);
HWY_EXPORT(transpose_f64);
HWY_EXPORT(round_f32);
HWY_EXPORT(round_f64);
}  // namespace

void finish_gram(const SquareBlock<float>& k) { HWY_DYNAMIC_DISPATCH(gram_f32)(k); }
void finish_gram(const SquareBlock<double>& k) { HWY_DYNAMIC_DISPATCH(gram_f64)(k); }
void finish_polynomial(const SquareBlock<float>& k, const Polynomial<float>& p) {
  HWY_DYNAMIC_DISPATCH(polynomial_f32)(k, p);
}
void finish_polynomial(const SquareBlock<double>& k, const Polynomial<double>& p) {
  HWY_DYNAMIC_DISPATCH(polynomial_f64)(k, p);
}
void transpose(const Transpose<float>& k) { HWY_DYNAMIC_DISPATCH(transpose_f32)(k); }
void transpose(const Transpose<double>& k) { HWY_DYNAMIC_DISPATCH(transpose_f64)(k); }
void round_to_bf16(float* x, int64_t ld, int64_t rows, int64_t cols) {
  HWY_DYNAMIC_DISPATCH(round_f32)(x, ld, rows, cols);
}
void round_to_bf16(double* x, int64_t ld, int64_t rows, int64_t cols) {
  HWY_DYNAMIC_DISPATCH(round_f64)(x, ld, rows, cols);
}

}  // namespace tephra::kernel
#endif

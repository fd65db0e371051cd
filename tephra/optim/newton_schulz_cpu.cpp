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

template <class T>
HWY_INLINE void round_row(T* row, int64_t n) {
  for (int64_t i = 0; i < n; ++i) row[i] = static_cast<T>(static_cast<float>(bf16(row[i])));
}

// c[j][i] = c[i][j] for the elements of the block above the diagonal, in tiles that stay in the
// first cache both ways.
template <class T>
HWY_INLINE void mirror(const SquareBlock<T>& k) {
  const int64_t row_end = k.row + k.rows, col_end = k.col + k.cols;
  for (int64_t i0 = k.row; i0 < row_end; i0 += kTile) {
    const int64_t i1 = std::min(i0 + kTile, row_end);
    const int64_t first = k.row == k.col ? i0 : k.col;
    for (int64_t j0 = first; j0 < col_end; j0 += kTile) {
      const int64_t j1 = std::min(j0 + kTile, col_end);
      for (int64_t j = j0; j < j1; ++j) {
        T* to = k.c + j * k.ld;
        const T* from = k.c + j;
        const int64_t last = std::min(i1, j);
        for (int64_t i = i0; i < last; ++i) to[i] = from[i * k.ld];
      }
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
  for (int64_t r = k.row; r < k.row + k.rows; ++r) {
    T* row = k.c + r * k.ld + k.col;
    const T* gram_row = p.gram + r * k.ld + k.col;
    for_each_vector<T>(k.cols, [&](int64_t i, int64_t n) HWY_ATTR {
      const auto square = hn::Mul(c, load_up_to(row + i, n));
      store_up_to(row + i, hn::MulAdd(b, load_up_to(gram_row + i, n), square), n);
    });
    if (k.round_to_bf16) round_row(row, k.cols);
    if (k.row == k.col) row[r - k.col] += static_cast<T>(p.diagonal);
  }
  mirror(k);
}
void polynomial_f32(const SquareBlock<float>& k, const Polynomial<float>& p) { polynomial(k, p); }
void polynomial_f64(const SquareBlock<double>& k, const Polynomial<double>& p) { polynomial(k, p); }

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(gram_f32);
HWY_EXPORT(gram_f64);
HWY_EXPORT(polynomial_f32);
HWY_EXPORT(polynomial_f64);
}  // namespace

void finish_gram(const SquareBlock<float>& k) { HWY_DYNAMIC_DISPATCH(gram_f32)(k); }
void finish_gram(const SquareBlock<double>& k) { HWY_DYNAMIC_DISPATCH(gram_f64)(k); }
void finish_polynomial(const SquareBlock<float>& k, const Polynomial<float>& p) {
  HWY_DYNAMIC_DISPATCH(polynomial_f32)(k, p);
}
void finish_polynomial(const SquareBlock<double>& k, const Polynomial<double>& p) {
  HWY_DYNAMIC_DISPATCH(polynomial_f64)(k, p);
}

}  // namespace tephra::kernel
#endif

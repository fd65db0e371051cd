// SPDX-License-Identifier: Apache-2.0
// What attention's forward and backward kernels share: operands of a tile in the acc type, and the
// exponential. Included once per instruction set, hence no ordinary include guard.
#if defined(TEPHRA_OPS_ATTENTION_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TEPHRA_OPS_ATTENTION_GROUP_INL_H_
#undef TEPHRA_OPS_ATTENTION_GROUP_INL_H_
#else
#define TEPHRA_OPS_ATTENTION_GROUP_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "tephra/device/cpu/gemm.h"
#include "tephra/device/cpu/simd-inl.h"
#include "tephra/ops/attention_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

namespace {

template <class Acc>
constexpr Acc kInfinity = std::numeric_limits<Acc>::infinity();

// Highway's gives 0 for NaN, which would pass for a masked key.
template <class Acc>
HWY_INLINE Vec<Acc> exponential(Vec<Acc> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(Tag<Acc>(), x));
}

template <class Acc>
struct Matrix {
  Acc* data;
  int64_t stride;
};

template <class Acc>
Matrix<Acc> scratch(Tensor& owner, int64_t rows, int64_t cols) {
  owner = Tensor({rows, cols}, dtype_of<Acc>(), kCpu, Purpose::workspace);
  return {owner.data<Acc>(), cols};
}

// Copies a block of x into `to` (dense) in the acc type.
template <class T>
void widen(const Tensor& x, int64_t row, int64_t rows, int64_t col, int64_t cols, acc_t<T>* to) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* from = x.row<T>(row + r) + col;
    for_each_vector<T>(cols, [&](int64_t c, int64_t n) HWY_ATTR {
      store_up_to(to + r * cols + c, load_up_to(from + c, n), n);
    });
  }
}

// A block of x in the acc type: in place when x has it, else widened into `buffer`.
template <class T>
Matrix<const acc_t<T>> operand(const Tensor& x, int64_t row, int64_t rows, int64_t col,
                               int64_t cols, acc_t<T>* buffer) {
  if constexpr (std::is_same_v<T, acc_t<T>>) {
    return {x.row<T>(row) + col, x.row_stride()};
  } else {
    widen<T>(x, row, rows, col, cols, buffer);
    return {buffer, cols};
  }
}

// Whether these rows of the ranges lie one after another among the keys.
inline bool adjoin(const KeyRanges& ranges, int64_t key, int64_t keys) {
  if (!ranges.pages) return true;
  const int32_t* pages = ranges.pages.data<int32_t>();
  const int64_t last = (key + keys - 1) / ranges.page_rows;
  for (int64_t p = key / ranges.page_rows; p < last; ++p) {
    if (pages[p + 1] != pages[p] + 1) return false;
  }
  return true;
}

inline int64_t stored_row(const KeyRanges& ranges, int64_t key) {
  if (!ranges.pages) return key;
  return ranges.pages.data<int32_t>()[key / ranges.page_rows] * ranges.page_rows +
         key % ranges.page_rows;
}

// The same for keys or values, whose rows may lie in pages: gathered into `buffer` where they do
// not adjoin.
template <class T>
Matrix<const acc_t<T>> key_operand(const Tensor& x, const KeyRanges& ranges, int64_t key,
                                   int64_t keys, int64_t col, int64_t cols, acc_t<T>* buffer) {
  if (adjoin(ranges, key, keys)) {
    return operand<T>(x, stored_row(ranges, key), keys, col, cols, buffer);
  }
  for (int64_t done = 0; done < keys;) {
    const int64_t left_of_page = ranges.page_rows - (key + done) % ranges.page_rows;
    const int64_t rows = std::min(left_of_page, keys - done);
    widen<T>(x, stored_row(ranges, key + done), rows, col, cols, buffer + done * cols);
    done += rows;
  }
  return {buffer, cols};
}

// The query heads that share one KV head, over some tokens: `count` matrices of `rows` rows. Heads
// lie side by side in a token's row, so a single token's heads are one matrix as they are
// (`stacked`), and each key is read once for all of them.
struct Group {
  int64_t heads, head_dim;
  int64_t first_row, tokens;
  bool stacked;

  // The same heads in rows where each has another width.
  Group with_dim(int64_t dim) const { return {heads, dim, first_row, tokens, stacked}; }

  int64_t width() const { return heads * head_dim; }
  int64_t count() const { return stacked ? 1 : heads; }
  int64_t rows() const { return stacked ? heads : tokens; }
  int64_t token(int64_t r) const { return first_row + (stacked ? 0 : r); }
  int64_t head(int64_t matrix, int64_t r) const { return stacked ? r : matrix; }
  // Matrix i of a block that holds all the heads.
  template <class Acc>
  Matrix<Acc> at(Matrix<Acc> block, int64_t i) const {
    return {block.data + i * head_dim, stacked ? head_dim : block.stride};
  }
};

// c = op(a) op(b), or c += op(a) op(b).
template <class Acc>
void multiply(int64_t m, int64_t n, int64_t k, Matrix<const Acc> a, bool transpose_a,
              Matrix<const Acc> b, bool transpose_b, Matrix<Acc> c, bool accumulate) {
  cpu::gemm_serial(cpu::Gemm<Acc, Acc>{m, n, k, a.data, a.stride, transpose_a, b.data, b.stride,
                                       transpose_b, c.data, c.stride, accumulate});
}

// The columns of a tile that one of its rows sees.
struct Columns {
  int64_t begin, end;
};

HWY_INLINE Columns visible(const KeyRanges& ranges, int64_t token, int64_t key, int64_t keys) {
  const int64_t begin = std::max<int64_t>(ranges.first_N.data<int32_t>()[token] - key, 0);
  const int64_t end = std::min<int64_t>(ranges.last_N.data<int32_t>()[token] - key, keys);
  return begin < end ? Columns{begin, end} : Columns{0, 0};
}

}  // namespace
}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

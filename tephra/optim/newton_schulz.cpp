// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/newton_schulz.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/gemm.h"

namespace tephra {
namespace {

struct Range {
  int64_t begin, size;
};

// Nearly equal pieces of about `largest`, each but the last a multiple of 16.
std::vector<Range> cut(int64_t total, int64_t largest) {
  const int64_t count = std::max<int64_t>(1, (total + largest / 2) / largest);
  const int64_t piece = ceil_div(ceil_div(total, count), 16) * 16;
  std::vector<Range> ranges;
  for (int64_t at = 0; at < total; at += piece) ranges.push_back({at, std::min(piece, total - at)});
  return ranges;
}

// Small blocks waste less on the diagonal, large ones are multiplied faster.
int64_t square_block(int64_t side) {
  if (side <= 128) return side;
  return side < 1024 ? 128 : 256;
}

template <class T>
class Iteration {
 public:
  Iteration(const Tensor& x, const NewtonSchulzOptions& options)
      : o_(options), count_(x.dim(0)), rows_(x.dim(1)), cols_(x.dim(2)), x_(x) {
    const Shape square{count_, side(), side()};
    y_ = Tensor(x.shape(), x.dtype(), x.device(), Purpose::workspace);
    gram_ = Tensor(square, x.dtype(), x.device(), Purpose::workspace);
    b_ = Tensor(square, x.dtype(), x.device(), Purpose::workspace);
    const std::vector<Range> lines = cut(side(), square_block(side()));
    for (size_t i = 0; i < lines.size(); ++i) {
      for (size_t j = i; j < lines.size(); ++j) blocks_.push_back({lines[i], lines[j]});
    }
    for (const Range& r : cut(rows_, 256)) {
      for (const Range& c : cut(cols_, 512)) tiles_.push_back({r, c});
    }
  }

  Tensor run() {
    for (int step = 0; step < o_.steps; ++step) {
      each(blocks_, [&](int64_t matrix, const Block& at) { gram(matrix, at); });
      each(blocks_, [&](int64_t matrix, const Block& at) { polynomial(matrix, at); });
      each(tiles_, [&](int64_t matrix, const Block& at) { product(matrix, at); });
      std::swap(x_, y_);
    }
    return x_;
  }

 private:
  struct Block {
    Range rows, cols;
  };

  bool wide() const { return rows_ <= cols_; }
  int64_t side() const { return std::min(rows_, cols_); }
  T* matrix_of(const Tensor& t, int64_t i) const { return t.data<T>() + i * t.dim(1) * t.dim(2); }
  kernel::SquareBlock<T> square(const Tensor& t, int64_t i, const Block& at) const {
    return {matrix_of(t, i), side(),       at.rows.begin, at.cols.begin,
            at.rows.size,    at.cols.size, o_.bf16};
  }

  template <class F>
  void each(const std::vector<Block>& blocks, F&& f) const {
    const auto size = static_cast<int64_t>(blocks.size());
    parallel_for(count_ * size, 1,
                 [&](int64_t i, int64_t) { f(i / size, blocks[static_cast<size_t>(i % size)]); });
  }

  // A = X X^T, or X^T X.
  void gram(int64_t matrix, const Block& at) const {
    const T* x = matrix_of(x_, matrix);
    const int64_t step = wide() ? cols_ : 1;  // from one vector of X to the next
    T* c = matrix_of(gram_, matrix) + at.rows.begin * side() + at.cols.begin;
    cpu::gemm_serial(cpu::Gemm<T, T>{at.rows.size, at.cols.size, std::max(rows_, cols_),
                                     x + at.rows.begin * step, cols_, !wide(),
                                     x + at.cols.begin * step, cols_, wide(), c, side()});
    kernel::finish_gram(square(gram_, matrix, at));
  }

  // B = a I + b A + c A^2: what multiplies X in this step.
  void polynomial(int64_t matrix, const Block& at) const {
    const T* gram = matrix_of(gram_, matrix);
    T* c = matrix_of(b_, matrix) + at.rows.begin * side() + at.cols.begin;
    cpu::gemm_serial(cpu::Gemm<T, T>{at.rows.size, at.cols.size, side(),
                                     gram + at.rows.begin * side(), side(), false,
                                     gram + at.cols.begin, side(), false, c, side()});
    kernel::finish_polynomial(square(b_, matrix, at), {gram, o_.a, o_.b, o_.c});
  }

  // B X, or X B.
  void product(int64_t matrix, const Block& at) const {
    const T* x = matrix_of(x_, matrix);
    const T* b = matrix_of(b_, matrix);
    T* y = matrix_of(y_, matrix) + at.rows.begin * cols_ + at.cols.begin;
    const T* left = wide() ? b : x;
    const T* right = wide() ? x : b;
    cpu::gemm_serial(cpu::Gemm<T, T>{at.rows.size, at.cols.size, side(),
                                     left + at.rows.begin * side(), side(), false,
                                     right + at.cols.begin, cols_, false, y, cols_});
    for (int64_t r = 0; o_.bf16 && r < at.rows.size; ++r) {
      for (int64_t c = 0; c < at.cols.size; ++c) {
        T& value = y[r * cols_ + c];
        value = static_cast<T>(static_cast<float>(bf16(value)));
      }
    }
  }

  const NewtonSchulzOptions& o_;
  int64_t count_, rows_, cols_;
  Tensor x_, y_, gram_, b_;
  std::vector<Block> blocks_;  // of A and B, on and above the diagonal
  std::vector<Block> tiles_;   // of X
};

}  // namespace

Tensor newton_schulz(const Tensor& x, const NewtonSchulzOptions& options) {
  TEPHRA_ASSERT(x.ndim() == 3 && x.dense(), "a dense batch of matrices");
  if (x.numel() == 0) return x;
  if (x.dtype() == DType::f64) return Iteration<double>(x, options).run();
  return Iteration<float>(x, options).run();
}

NewtonSchulzFlops newton_schulz_flops(int64_t rows, int64_t cols, int steps) {
  const auto m = static_cast<double>(std::min(rows, cols));
  const auto n = static_cast<double>(std::max(rows, cols));
  const double half = m * (m + 1) / 2;  // elements on and above the diagonal
  return {.needed = 2.0 * steps * (half * n + half * m + m * m * n),
          .full = 2.0 * steps * (m * m * n + m * m * m + m * m * n)};
}

int64_t newton_schulz_workspace(int64_t rows, int64_t cols) {
  const int64_t side = std::min(rows, cols);
  return rows * cols + 2 * side * side;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/newton_schulz.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

struct Range {
  int64_t begin, size;
};

// Pieces of `size`, the last one what is left, or a little more than that: no slivers.
std::vector<Range> cut(int64_t total, int64_t size) {
  constexpr int64_t kSliver = 16;
  std::vector<Range> ranges;
  for (int64_t at = 0; at < total;) {
    const int64_t left = total - at;
    ranges.push_back({at, left < size + kSliver ? left : size});
    at += ranges.back().size;
  }
  return ranges;
}

// Small blocks waste less on the diagonal, large ones are multiplied faster, and multiples of 48
// suit the library's inner loop. Measured with `tephra bench optimizer`.
int64_t square_block(int64_t side) {
  if (side <= 320) return 48;
  if (side < 1024) return 96;
  return side < 2048 ? 192 : 240;
}

constexpr int64_t kTileRows = 256, kTileColumns = 512;

// Elements from one row of a square to the next: never a power of two, where the rows of a tile
// would crowd into a few sets of the cache.
int64_t square_stride(int64_t side) { return ceil_div(side, 16) * 16 + 16; }

// On matrices with at least as many rows as columns: then every product is of a kind that the
// library computes fast, which X X^T is not.
template <class T>
class Iteration {
 public:
  // y: of the same shape, for every other step.
  Iteration(const Tensor& x, const Tensor& y, const NewtonSchulzOptions& options)
      : o_(options), count_(x.dim(0)), rows_(x.dim(1)), side_(x.dim(2)), x_(x), y_(y) {
    const Shape square{count_, side_, ld()};
    gram_ = Tensor(square, x.dtype(), x.device(), Purpose::workspace);
    b_ = Tensor(square, x.dtype(), x.device(), Purpose::workspace);
    const std::vector<Range> lines = cut(side_, square_block(side_));
    for (size_t i = 0; i < lines.size(); ++i) {
      for (size_t j = i; j < lines.size(); ++j) blocks_.push_back({lines[i], lines[j]});
    }
    for (const Range& r : cut(rows_, kTileRows)) {
      for (const Range& c : cut(side_, kTileColumns)) tiles_.push_back({r, c});
    }
  }

  void run() {
    for (int step = 0; step < o_.steps; ++step) {
      each(blocks_, [&](int64_t matrix, const Block& at) { gram(matrix, at); });
      each(blocks_, [&](int64_t matrix, const Block& at) { polynomial(matrix, at); });
      each(tiles_, [&](int64_t matrix, const Block& at) { product(matrix, at); });
      std::swap(x_, y_);
    }
  }

 private:
  struct Block {
    Range rows, cols;
  };

  int64_t ld() const { return square_stride(side_); }
  T* matrix_of(const Tensor& t, int64_t i) const { return t.data<T>() + i * t.dim(1) * t.dim(2); }
  kernel::SquareBlock<T> square(const Tensor& t, int64_t i, const Block& at) const {
    return {matrix_of(t, i), ld(),         at.rows.begin, at.cols.begin,
            at.rows.size,    at.cols.size, o_.bf16};
  }

  template <class F>
  void each(const std::vector<Block>& blocks, F&& f) const {
    const auto size = static_cast<int64_t>(blocks.size());
    parallel_for(count_ * size, 1,
                 [&](int64_t i, int64_t) { f(i / size, blocks[static_cast<size_t>(i % size)]); });
  }

  // A = X^T X
  void gram(int64_t matrix, const Block& at) const {
    const T* x = matrix_of(x_, matrix);
    T* c = matrix_of(gram_, matrix) + at.rows.begin * ld() + at.cols.begin;
    cpu::gemm_serial(cpu::Gemm<T, T>{at.rows.size, at.cols.size, rows_, x + at.rows.begin, side_,
                                     true, x + at.cols.begin, side_, false, c, ld()});
    kernel::finish_gram(square(gram_, matrix, at));
  }

  // B = a I + b A + c A^2: what multiplies X in this step.
  void polynomial(int64_t matrix, const Block& at) const {
    const T* gram = matrix_of(gram_, matrix);
    T* c = matrix_of(b_, matrix) + at.rows.begin * ld() + at.cols.begin;
    cpu::gemm_serial(cpu::Gemm<T, T>{at.rows.size, at.cols.size, side_, gram + at.rows.begin, ld(),
                                     true, gram + at.cols.begin, ld(), false, c, ld()});
    kernel::finish_polynomial(square(b_, matrix, at), {gram, o_.a, o_.b, o_.c});
  }

  // X B
  void product(int64_t matrix, const Block& at) const {
    const T* x = matrix_of(x_, matrix) + at.rows.begin * side_;
    const T* b = matrix_of(b_, matrix) + at.cols.begin;
    T* y = matrix_of(y_, matrix) + at.rows.begin * side_ + at.cols.begin;
    cpu::gemm_serial(cpu::Gemm<T, T>{at.rows.size, at.cols.size, side_, x, side_, false, b, ld(),
                                     false, y, side_});
    if (o_.bf16) kernel::round_to_bf16(y, side_, at.rows.size, at.cols.size);
  }

  const NewtonSchulzOptions& o_;
  int64_t count_, rows_, side_;
  Tensor x_, y_, gram_, b_;
  std::vector<Block> blocks_;  // of A and B, on and above the diagonal
  std::vector<Block> tiles_;   // of X
};

// y = x^T of each matrix, in strips of rows of y.
template <class T>
void transpose(const Tensor& x, const Tensor& y) {
  constexpr int64_t kStrip = 64;
  const int64_t rows = x.dim(1), cols = x.dim(2), strips = ceil_div(cols, kStrip);
  parallel_for(x.dim(0) * strips, 1, [&](int64_t i, int64_t) {
    const int64_t at = i % strips * kStrip, begin = i / strips * rows * cols;
    kernel::transpose(kernel::Transpose<T>{x.data<T>() + begin + at, cols, rows,
                                           std::min(kStrip, cols - at),
                                           y.data<T>() + begin + at * rows, rows});
  });
}

// x -> newton_schulz(x), in x after an even number of steps, in y after an odd one.
template <class T>
void iterate_batch(const Tensor& x, const Tensor& y, const NewtonSchulzOptions& options) {
  if (x.dim(1) >= x.dim(2)) return Iteration<T>(x, y, options).run();
  const Shape tall{x.dim(0), x.dim(2), x.dim(1)};
  const Tensor x_tall = x.view(tall), y_tall = y.view(tall);
  transpose<T>(x, y_tall);
  Iteration<T>(y_tall, x_tall, options).run();
  if (options.steps % 2 == 0) {
    transpose<T>(y_tall, x);
  } else {
    transpose<T>(x_tall, y);
  }
}

// Small matrices are done one by one, each on one thread and within its caches, when there are
// enough for all threads; else tiles of all of them are shared out. The bits are the same.
template <class T>
void iterate(const Tensor& x, const Tensor& y, const NewtonSchulzOptions& options) {
  constexpr int64_t kSmallMatrixBytes = int64_t{8} << 20;
  const int64_t count = x.dim(0), rows = x.dim(1), cols = x.dim(2);
  const int64_t bytes = (rows * cols + newton_schulz_workspace(rows, cols)) * x.bytes() / x.numel();
  if (bytes > kSmallMatrixBytes || count < num_threads()) return iterate_batch<T>(x, y, options);
  parallel_for(count, 1, [&](int64_t i, int64_t) {
    const auto one = [&](const Tensor& t) {
      return t.slice_rows(i * rows, (i + 1) * rows).view({1, rows, cols});
    };
    iterate_batch<T>(one(x), one(y), options);
  });
}

}  // namespace

Tensor newton_schulz(const Tensor& x, const NewtonSchulzOptions& options) {
  TEPHRA_ASSERT(x.ndim() == 3 && x.dense(), "a dense batch of matrices");
  if (x.numel() == 0) return x;
  const Tensor y(x.shape(), x.dtype(), x.device(), Purpose::workspace);
  launch(x.device(), "newton_schulz", kernel::NewtonSchulz{x, y, options});
  return options.steps % 2 == 0 ? x : y;
}

void kernel::NewtonSchulz::on_cpu() const {
  if (x.dtype() == DType::f64) {
    iterate<double>(x, y, options);
  } else {
    iterate<float>(x, y, options);
  }
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
  return rows * cols + 2 * side * square_stride(side);
}

}  // namespace tephra

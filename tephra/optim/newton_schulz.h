// SPDX-License-Identifier: Apache-2.0
// The Newton-Schulz iteration of Muon (Jordan et al., 2024): pulls every singular value of X
// towards
// 1. With A = X^T X, one step is X <- a X + X (b A + c A^2). A and A^2 are symmetric: only blocks
// on and above the diagonal are computed, the rest is mirrored. X with fewer rows than columns is
// transposed first and back at the end: A is always the smaller square.
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

struct NewtonSchulzOptions {
  double a = 3.4445, b = -4.7750, c = 2.0315;
  int steps = 5;
  // Round X, A and b A + c A^2 to bf16 between the products, whose sums stay f32.
  bool bf16 = false;
};

// Of each matrix in x [count, rows, cols] (dense, f32 or f64, on a GPU f32 or bf16) by itself: its
// bits depend neither on its neighbours nor on the number of threads. A matrix has norm at most 1.
// `x` is spent: its memory may hold the result or scratch.
Tensor newton_schulz(const Tensor& x, const NewtonSchulzOptions& options);

// Of one matrix: what the products need (symmetric ones half), what they would need in full.
struct NewtonSchulzFlops {
  double needed = 0;
  double full = 0;
};
NewtonSchulzFlops newton_schulz_flops(int64_t rows, int64_t cols, int steps);

// Workspace for one matrix beside itself, in elements.
int64_t newton_schulz_workspace(int64_t rows, int64_t cols);

namespace kernel {

// Of a batch: from x into x after an even number of steps, into y after an odd one.
struct NewtonSchulz {
  const Tensor& x;
  const Tensor& y;  // like x
  const NewtonSchulzOptions& options;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// What follows a product while its block is in the cache. The block is rows [row, row + rows) and
// columns [col, col + cols) of the square matrix `c` with `ld` elements a row, in its upper half.
template <class T>
struct SquareBlock {
  T* c;
  int64_t ld;
  int64_t row, col, rows, cols;
  bool round_to_bf16;
};

// Rounds the block and mirrors it at the diagonal.
void finish_gram(const SquareBlock<float>& block);
void finish_gram(const SquareBlock<double>& block);

// c <- diagonal I + b gram + c_factor c in the block, rounded (but for the diagonal) and mirrored.
template <class T>
struct Polynomial {
  const T* gram;
  double diagonal, b, c_factor;
};
void finish_polynomial(const SquareBlock<float>& block, const Polynomial<float>& polynomial);
void finish_polynomial(const SquareBlock<double>& block, const Polynomial<double>& polynomial);

// Every element of rows x cols to the nearest bf16.
void round_to_bf16(float* x, int64_t ld, int64_t rows, int64_t cols);
void round_to_bf16(double* x, int64_t ld, int64_t rows, int64_t cols);

// to[j][i] = from[i][j]
template <class T>
struct Transpose {
  const T* from;
  int64_t from_ld, rows, cols;
  T* to;
  int64_t to_ld;
};
void transpose(const Transpose<float>& block);
void transpose(const Transpose<double>& block);

}  // namespace kernel

}  // namespace tephra

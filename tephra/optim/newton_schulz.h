// SPDX-License-Identifier: Apache-2.0
// The Newton-Schulz iteration of Muon (Jordan et al., 2024): pulls every singular value of X
// towards
// 1. With A = X X^T, one step is X <- a X + (b A + c A^2) X. A and A^2 are symmetric: only blocks
// on and above the diagonal are computed, the rest is mirrored. X with more rows than columns
// iterates on the other side, A = X^T X and X <- a X + X (b A + c A^2), which is the same without a
// transpose.
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

struct NewtonSchulzOptions {
  double a = 3.4445, b = -4.7750, c = 2.0315;
  int steps = 5;
  // Round X, A and b A + c A^2 to bf16 between the products, whose sums stay f32.
  bool bf16 = false;
};

// Of each matrix in x [count, rows, cols] (dense, f32 or f64) by itself: its bits depend neither on
// its neighbours nor on the number of threads. A matrix has norm at most 1. `x` is spent: its
// memory may hold the result or scratch.
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

}  // namespace kernel

}  // namespace tephra

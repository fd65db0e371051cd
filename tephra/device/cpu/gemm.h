// SPDX-License-Identifier: Apache-2.0
// Matrix products on the CPU. float goes to oneDNN, always single-threaded on tiles that are cut by
// shape alone and never split K, so the thread count cannot change a bit. double is our own (the
// oracle's type); bf16 operands are widened to float tile by tile and results rounded once.
//
// Products x W^T have classes of kernels. Within one, a row's bits do not depend on the other rows
// (in tall batches: with AVX-512). Few rows are dot products of our own that read each weight once.
// Tall batches, as in training, go to oneDNN, with columns cut by (n, k) alone; unless somebody
// says otherwise, kDecodeRows or more are one. Many rows, as in the engine's prompts, are dot
// products but where they are short, or bf16, and oneDNN keeps rows apart. Weights in bf16 beside x
// in float are always dot products: oneDNN would need them widened and packed for every tile
// (docs/decisions/0117-*.md, 0125-*.md).
#pragma once

#include <cstdint>
#include <span>

#include "tephra/base/number.h"

namespace tephra::cpu {

inline constexpr int64_t kDecodeRows = 16;  // the fewest rows of the oneDNN class

enum class RowClass { by_count, few, many, tall };

// While one lives, all products of its thread are of this class, however many rows they have: few
// for steps of decoding side by side, which read the weights once for all of them; many for passes
// whose bits must not depend on how many rows there happen to be.
class RowClassScope {
 public:
  explicit RowClassScope(RowClass rows);
  ~RowClassScope();
  RowClassScope(const RowClassScope&) = delete;
  RowClassScope& operator=(const RowClassScope&) = delete;

 private:
  RowClass before_;
};

// The class of a batch of so many rows as the calling thread computes it; never by_count.
RowClass row_class(int64_t rows);

// C[m, n] = op(A) op(B) + bias + (accumulate ? C : 0), row-major; lda, ldb, ldc are row strides of
// the matrices as stored (before the transpose).
template <class In, class Out, class W = In>
struct Gemm {
  int64_t m, n, k;
  const In* a;
  int64_t lda;
  bool transpose_a;
  const W* b;
  int64_t ldb;
  bool transpose_b;
  Out* c;
  int64_t ldc;
  bool accumulate = false;
  const In* bias = nullptr;  // [n], added to every row
  // Of x W^T. Some rows of a batch stay in its class, however few they are.
  RowClass rows = RowClass::by_count;
};

// On all threads. (double, double), (float, float), (bf16, bf16) and (bf16, float); and (float,
// float, bf16) for x W^T, where the bits are those of few rows times W widened to float.
template <class In, class Out, class W>
void gemm(const Gemm<In, Out, W>& g);

// Several products whose results do not overlap; all their tiles are shared out together.
template <class In, class Out, class W>
void gemm(std::span<const Gemm<In, Out, W>> products);

// On the calling thread: for kernels that cut their own tiles.
template <class In, class Out, class W>
void gemm_serial(const Gemm<In, Out, W>& g);

}  // namespace tephra::cpu

// SPDX-License-Identifier: Apache-2.0
// The passes over memory that an optimizer step is made of. They work on pieces of the flat
// buffers, cut by shape alone, so that many small parameters cost no more than a large one and the
// number of threads changes no bit. Values are f64, f32, or bf16 with the remainder of an f32
// master (optim/master.h); everything else is in the acc dtype.
#pragma once

#include <span>
#include <vector>

#include "tephra/autograd/parameter.h"

namespace tephra {

// What changes from step to step.
struct StepScalars {
  double lr = 0;
  double gradient_scale = 1;  // of clipping
  int64_t update = 1;         // counts applied updates, this one included
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
};

// A stretch of one parameter.
struct Piece {
  int64_t begin;  // in values, gradients and first moments
  int64_t other;  // in second moments (AdamW) or the workspace (Muon)
  int64_t size;
  double rate;   // of weight decay, times the learning rate
  double step;   // of the update, times the learning rate
  double decay;  // 0: none
};

inline constexpr int64_t kPieceElements = 1 << 14;

// Cuts [begin, begin + size) and appends the pieces; `whole` gives the fields that they share.
void cut_pieces(Piece whole, std::vector<Piece>& pieces);

struct MasterValues {
  Tensor values;
  Tensor remainder;  // i16, for bf16 values only
};

namespace kernel {

// sums[i] = sum of the squares of piece i of `x` from its `begin`, in double.
struct SumSquares {
  const Tensor& x;
  std::span<const Piece> pieces;
  std::span<double> sums;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2,
// p <- p (1 - lr wd) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
struct AdamWUpdate {
  const MasterValues& p;
  const Tensor& gradients;
  const Tensor& first;
  const Tensor& second;
  std::span<const Piece> pieces;
  const AdamWOptions& options;
  const StepScalars* scalars;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// m <- momentum m + g, u = g + momentum m with Nesterov, else m. Writes u to the workspace and the
// sum of its squares, piece by piece.
struct MuonMomentum {
  const Tensor& gradients;
  const Tensor& first;
  const Tensor& workspace;
  std::span<const Piece> pieces;
  const Tensor& sums;  // f64, one for each piece, where the gradients are
  double momentum;
  bool nesterov;
  const StepScalars* scalars;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// p <- p (1 - lr wd) - lr step u
struct MuonUpdate {
  const MasterValues& p;
  const Tensor& workspace;  // on a GPU it may be bf16
  std::span<const Piece> pieces;
  const StepScalars* scalars;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// Each matrix by its own norm: out <- u / (norm + eps), rounded to bf16 values if asked. A matrix
// is `pieces_each` pieces one after another, and `sums` are of their squares.
struct ScalePieces {
  const Tensor& workspace;
  const Tensor& out;  // the workspace itself, or on a GPU a tensor like it in bf16
  std::span<const Piece> pieces;
  const Tensor& sums;
  int64_t pieces_each;
  double eps;
  bool round_to_bf16;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra

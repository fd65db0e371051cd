// SPDX-License-Identifier: Apache-2.0
// What compressed convolutional attention does between its convolutions and attention, in one pass:
// rope(qk_norm(qk_mean(z, y))). A GPU takes this; the CPU's kernels are the three in turn.
#pragma once

#include "tephra/ops/qk_norm.h"
#include "tephra/ops/rope.h"

namespace tephra {

struct CcaHeadsForm {
  int64_t nq, nk;  // query and key heads
  Temperature temperature;
  RopeForm rope;

  int64_t channels() const { return (nq + nk) * rope.head_dim; }
};

// z: the latents [query heads | key heads], y: the same convolved, temp [nk] or undefined
// (Temperature::none). Between the three steps nothing is rounded on a GPU.
Tensor cca_heads(const Tensor& z, const Tensor& y, const Tensor& temp, const Tensor& position_N,
                 const CcaHeadsForm& form);

namespace kernel {

struct CcaHeads {
  const Tensor& z;
  const Tensor& y;
  const Tensor& temp;
  const Tensor& position_N;
  CcaHeadsForm form;
  Tensor& out;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// Computes the mean and the lengths again: nothing but the inputs is kept.
struct CcaHeadsGrad {
  const Tensor& dout;
  const Tensor& z;
  const Tensor& y;
  const Tensor& temp;
  const Tensor& position_N;
  CcaHeadsForm form;
  GradTarget dz, dy, dtemp;  // undefined when not wanted

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra

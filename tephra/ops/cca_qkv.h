// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of compressed convolutional attention from their latents: both
// convolutions, then cca_heads; values by value_shift. A GPU takes this for training; nothing but
// the latents is kept for its backward pass, which convolves them again.
#pragma once

#include "tephra/core/segments.h"
#include "tephra/ops/cca_heads.h"

namespace tephra {

struct CcaConvs {
  Tensor weight0, bias0;  // depthwise_conv: [C, 1, taps], [C]
  Tensor weight1, bias1;  // grouped_conv: [C, head width, taps], [C]
};

// z: the latents [query heads | key heads | values] of documents without a past (no left state, and
// positions count from their first tokens), with an even number of columns for values, or none;
// temp [nk] or undefined (Temperature::none). The result has the same columns.
Tensor cca_qkv(const Tensor& z, const CcaConvs& convs, const Tensor& temp, const Segments& segments,
               const CcaHeadsForm& form);

// Whether kernels of its own wait for such latents on their device; elsewhere the ops one by one
// are no slower and convolve once.
bool has_fused_cca_qkv(const Tensor& z, const CcaConvs& convs, const CcaHeadsForm& form);

namespace kernel {

struct CcaQkv {
  const Tensor& z;
  const CcaConvs& convs;
  const Tensor& temp;
  const Segments& segments;
  CcaHeadsForm form;
  Tensor& out;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct CcaQkvGrad {
  const Tensor& dout;
  const Tensor& z;
  const CcaConvs& convs;
  const Tensor& temp;
  const Segments& segments;
  CcaHeadsForm form;
  GradTarget dz, dweight0, dbias0, dweight1, dbias1, dtemp;  // undefined when not wanted

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// y = x W^T + b, the projection every layer is made of.
#pragma once

#include "tephra/core/weight.h"

namespace tephra {

// x [N, in], weight [out, in], bias [out] or undefined; y [N, out] in x's dtype. A weight that is
// no parameter may stay bf16 beside x in f32: it is widened exactly, and read in half the time.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// Several weights side by side: y = x [W1; W2; ...]^T. `biases` is empty or has one per weight,
// undefined for none.
Tensor linear(const Tensor& x, const Tensors& weights, const Tensors& biases);

// The same as the first with y in the acc dtype (f32 logits of a bf16 model). For inference: it is
// not recorded.
Tensor linear_acc(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// The same for weights that may be packed. Packed ones take x in f32, on a GPU also in bf16, and
// are not recorded.
Tensor linear(const Tensor& x, const Weight& weight, const Tensor& bias = {});
Tensor linear(const Tensor& x, const Weights& weights, const Tensors& biases);
Tensor linear_acc(const Tensor& x, const Weight& weight, const Tensor& bias = {});

// Dense matrices that lie one after another in memory, as projections of one layer do, can be
// multiplied as one: how many rows they have together, else 0.
int64_t joined_rows(const Tensors& matrices);

namespace kernel {

struct PackedLinear {
  const Tensor& x;         // [N, in] f32; on a GPU also bf16
  const Weights& weights;  // [out, in] each, packed
  const Tensors& biases;   // [out] or undefined, one per weight, x's dtype
  Tensor& y;               // [N, sum of out], x's dtype or f32

  void on_cpu() const;
  // Writes the weights out, a part after the other where they are large, and multiplies by those:
  // for many rows. Single tokens have better (device/gpu/skinny.h).
  void on_gpu(gpu::Stream& stream) const;
};

struct Linear {
  const Tensor& x;         // [N, in]
  const Tensors& weights;  // [out, in] each
  const Tensors& biases;   // [out] or undefined, one per weight
  Tensor& y;               // [N, sum of out], x's dtype or its acc dtype

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// The gradients of one of the weights, and its part of dx. On a GPU `weight` and `dweight` may be
// the first of several that lie one after another, with dy for all of them.
struct LinearGrad {
  Tensor dy;  // [N, out], this weight's columns
  const Tensor& x;
  const Tensor& weight;
  Tensor dx;  // undefined when not wanted, as the next two
  bool accumulate_dx;
  Tensor dweight;  // acc dtype
  bool accumulate_dweight;
  Tensor dbias;  // acc dtype
  bool accumulate_dbias;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra

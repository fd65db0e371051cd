// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/merge_attention.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

AttentionOutput merge_attention(const AttentionOutput& a, const AttentionOutput& b) {
  require(a.o.ndim() == 2 && a.lse.ndim() == 2 && a.o.rows() == a.lse.rows() && a.lse.cols() > 0 &&
              a.o.cols() % a.lse.cols() == 0,
          "merge_attention: o must be [tokens, heads * head_dim] and lse [tokens, heads], got {} "
          "and {}",
          a.o.shape(), a.lse.shape());
  require(a.o.shape() == b.o.shape() && a.lse.shape() == b.lse.shape(),
          "merge_attention: both parts must have the same shapes, got o {} and {}, lse {} and {}",
          a.o.shape(), b.o.shape(), a.lse.shape(), b.lse.shape());
  require(a.o.dtype() == b.o.dtype() && a.lse.dtype() == acc_dtype(a.o.dtype()) &&
              b.lse.dtype() == a.lse.dtype(),
          "merge_attention: both o must have one dtype and lse its acc dtype, got o {} and {}, lse "
          "{} and {}",
          a.o.dtype(), b.o.dtype(), a.lse.dtype(), b.lse.dtype());

  AttentionOutput out{empty_like(a.o), empty_like(a.lse)};
  launch(a.o.device(), "merge_attention", kernel::MergeAttention{a, b, out.o, out.lse});
  record(
      {.name = "merge_attention",
       .op_class = OpClass::attention,
       .inputs = {a.o, a.lse, b.o, b.lse},
       .saved = {a.o, a.lse, b.o, b.lse}},
      {&out.o, &out.lse},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        GradTarget grads[4];
        for (size_t i = 0; i < 4; ++i) {
          if (sink.wants(i)) grads[i] = sink.target(i);
        }
        launch(saved[0].device(), "merge_attention",
               kernel::MergeAttentionGrad{dy[0],
                                          dy[1],
                                          {saved[0], saved[1]},
                                          {saved[2], saved[3]},
                                          grads[0],
                                          grads[1],
                                          grads[2],
                                          grads[3]});
      },
      [](const Tensors& in) -> Tensors {
        const AttentionOutput again = merge_attention({in[0], in[1]}, {in[2], in[3]});
        return {again.o, again.lse};
      });
  return out;
}

}  // namespace tephra

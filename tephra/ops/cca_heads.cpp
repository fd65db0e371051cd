// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/cca_heads.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

void check(const Tensor& z, const Tensor& y, const Tensor& temp, const Tensor& position_N,
           const CcaHeadsForm& f) {
  require(f.nq > 0 && f.nk > 0 && f.nq % f.nk == 0,
          "cca_heads: {} query heads do not share {} key heads evenly", f.nq, f.nk);
  const int64_t width = (f.nq + f.nk) * f.rope.head_dim;
  require(z.ndim() == 2 && z.cols() == width,
          "cca_heads: z must be [tokens, ({} + {}) * {}], got {}", f.nq, f.nk, f.rope.head_dim,
          z.shape());
  require(y.shape() == z.shape() && y.dtype() == z.dtype(),
          "cca_heads: y must be like z ({} of {}), got {} of {}", z.shape(), z.dtype(), y.shape(),
          y.dtype());
  const bool with_temp = f.temperature != Temperature::none;
  require(temp.defined() == with_temp, "cca_heads: expected {} temp", with_temp ? "a" : "no");
  if (with_temp) {
    require(temp.shape() == Shape{f.nk} && temp.dtype() == z.dtype(),
            "cca_heads: temp must be [{}] of {}, one for each key head, got {} of {}", f.nk,
            z.dtype(), temp.shape(), temp.dtype());
  }
  require(position_N.dtype() == DType::i32 && position_N.shape() == Shape{z.rows()},
          "cca_heads: position_N must be i32 [{}], one for each row of z, got {} {}", z.rows(),
          position_N.dtype(), position_N.shape());
  require(f.rope.rotary_dim >= 0 && f.rope.rotary_dim % 2 == 0 && f.rope.first >= 0 &&
              f.rope.first + f.rope.rotary_dim <= f.rope.head_dim,
          "cca_heads: {} dimensions from {} on do not lie in pairs within a head of {}",
          f.rope.rotary_dim, f.rope.first, f.rope.head_dim);
}

}  // namespace

Tensor cca_heads(const Tensor& z, const Tensor& y, const Tensor& temp,
                 const Tensor& given_positions, const CcaHeadsForm& form) {
  const Tensor position_N = to_device(given_positions, z.device());
  check(z, y, temp, position_N, form);
  Tensor out = empty_like(z);
  launch(z.device(), "cca_heads", kernel::CcaHeads{z, y, temp, position_N, form, out});

  const Tensors inputs{z, y, temp, position_N};
  record(
      {.name = "cca_heads", .op_class = OpClass::qk, .inputs = inputs, .saved = inputs}, {&out},
      [form](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        launch(saved[0].device(), "cca_heads",
               kernel::CcaHeadsGrad{dy[0], saved[0], saved[1], saved[2], saved[3], form,
                                    sink.target_if_wanted(0), sink.target_if_wanted(1),
                                    sink.target_if_wanted(2)});
      },
      [form](const Tensors& in) -> Tensors {
        return {cca_heads(in[0], in[1], in[2], in[3], form)};
      });
  return out;
}

}  // namespace tephra

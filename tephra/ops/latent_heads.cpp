// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/latent_heads.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

LatentHeads latent_heads(const Tensor& x, const Tensor& shared, int64_t heads, int64_t own_dim) {
  require(heads > 0 && own_dim >= 0, "latent_heads: expected heads and a width, got {} and {}",
          heads, own_dim);
  require(x.ndim() == 2 && x.cols() % heads == 0 && x.cols() / heads > own_dim,
          "latent_heads: x must be [tokens, {} * ({} + value_dim)], got {}", heads, own_dim,
          x.shape());
  require(shared.ndim() == 2 && shared.rows() == x.rows(),
          "latent_heads: shared must be [{}, width] to match the rows of x {}, got {}", x.rows(),
          x.shape(), shared.shape());
  require(shared.dtype() == x.dtype(), "latent_heads: shared is {}, x is {}", shared.dtype(),
          x.dtype());

  const int64_t shared_dim = shared.cols(), value_dim = x.cols() / heads - own_dim;
  LatentHeads out{Tensor({x.rows(), heads * (own_dim + shared_dim)}, x.dtype(), x.device()),
                  Tensor({x.rows(), heads * value_dim}, x.dtype(), x.device())};
  launch(x.device(), "latent_heads", kernel::LatentHeads{x, shared, heads, own_dim, out.k, out.v});

  record(
      {.name = "latent_heads", .op_class = OpClass::qk, .inputs = {x, shared}, .saved = {}},
      {&out.k, &out.v},
      [=](const Tensors&, const Tensors& dy, GradSink& sink) {
        const Tensor& given = dy[0] ? dy[0] : dy[1];
        launch(given.device(), "latent_heads",
               kernel::LatentHeadsGrad{dy[0], dy[1], heads, own_dim, shared_dim, value_dim,
                                       sink.target_if_wanted(0), sink.target_if_wanted(1)});
      },
      [=](const Tensors& in) -> Tensors {
        const LatentHeads again = latent_heads(in[0], in[1], heads, own_dim);
        return {again.k, again.v};
      });
  return out;
}

}  // namespace tephra

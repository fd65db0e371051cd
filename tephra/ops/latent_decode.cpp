// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/latent_decode.h"

#include "tephra/device/launch.h"

namespace tephra {
namespace {

void check_expand(std::string_view op, const Tensor& x, const Tensor& expand, int64_t heads,
                  int64_t own_dim) {
  require(heads > 0 && own_dim >= 0 && expand.ndim() == 2 && expand.rows() % heads == 0 &&
              expand.rows() / heads > own_dim,
          "{}: expand must be [{} * ({} + value_dim), latent], got {}", op, heads, own_dim,
          expand.shape());
  require(expand.dtype() == x.dtype(), "{}: expand is {}, its input is {}", op, expand.dtype(),
          x.dtype());
}

}  // namespace

Tensor absorb_queries(const Tensor& q, const Tensor& expand, int64_t heads, int64_t own_dim) {
  check_expand("absorb_queries", q, expand, heads, own_dim);
  require(q.ndim() == 2 && q.cols() % heads == 0 && q.cols() / heads >= own_dim,
          "absorb_queries: q must be [tokens, {} * ({} + rest)], got {}", heads, own_dim,
          q.shape());
  const int64_t rest = q.cols() / heads - own_dim;
  Tensor y({q.rows(), heads * (expand.cols() + rest)}, q.dtype(), q.device());
  launch(q.device(), "absorb_queries", kernel::AbsorbQueries{q, expand, heads, own_dim, y});
  return y;
}

Tensor expand_values(const Tensor& o, const Tensor& expand, int64_t heads, int64_t own_dim) {
  check_expand("expand_values", o, expand, heads, own_dim);
  require(o.ndim() == 2 && o.cols() == heads * expand.cols(),
          "expand_values: o must be [tokens, {} * {}], got {}", heads, expand.cols(), o.shape());
  const int64_t value_dim = expand.rows() / heads - own_dim;
  Tensor y({o.rows(), heads * value_dim}, o.dtype(), o.device());
  launch(o.device(), "expand_values", kernel::ExpandValues{o, expand, heads, own_dim, y});
  return y;
}

}  // namespace tephra

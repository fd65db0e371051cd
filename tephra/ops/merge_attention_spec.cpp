// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/merge_attention.h"

#include <cmath>

#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

Tensors run(const Tensors& in) {
  const AttentionOutput out = merge_attention({in[0], in[1]}, {in[2], in[3]});
  return {out.o, out.lse};
}

// in: o and lse of one part, o and lse of the other.
Tensors naive(const Tensors& in) {
  Tensor o(in[0].shape(), DType::f64), lse(in[1].shape(), DType::f64);
  const int64_t dim = o.cols() / lse.cols();
  for (int64_t i = 0; i < lse.numel(); ++i) {
    const double a = std::exp(in[1].at(i)), b = std::exp(in[3].at(i));
    lse.set(i, std::log(a + b));
    for (int64_t c = i * dim; c < (i + 1) * dim; ++c) {
      o.set(c, (in[0].at(c) * a + in[2].at(c) * b) / (a + b));
    }
  }
  return {o, lse};
}

OpCase merge_case(const std::string& name, int64_t rows, int64_t heads, int64_t dim,
                  double spread = 1) {
  return {.name = name,
          .inputs = {{.shape = {rows, heads * dim}},
                     InputSpec::stream({rows, heads}, 0, spread),
                     {.shape = {rows, heads * dim}},
                     InputSpec::stream({rows, heads}, 0, spread)},
          .run = run,
          .naive = naive};
}

}  // namespace

OpSpec merge_attention_spec() {
  constexpr int64_t kN = 16384, kHeads = 8, kDim = 128;
  constexpr double kO = 4.0 * kN * kHeads * kDim, kLse = 4.0 * kN * kHeads;
  const OpCase large = merge_case("", kN, kHeads, kDim);
  return {
      .name = "merge_attention",
      .cases = {merge_case("a few heads", 3, 2, 16),
                merge_case("a head no vector divides", 5, 3, 7),
                merge_case("several blocks of rows", 41, 2, 8),
                merge_case("one part outweighs the other", 6, 2, 8, 20),
                merge_case("no rows", 0, 2, 8)},
      .benches = {{.name = "16384 tokens, 8 heads of 128",
                   .inputs = large.inputs,
                   .run = large.run,
                   .forward_read_bytes = 2 * (kO + kLse),
                   .forward_write_bytes = kO + kLse,
                   .backward_read_bytes = 3 * kO + 3 * kLse,
                   .backward_write_bytes = 2 * (kO + kLse)}},
  };
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/add_bias.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

Tensors run(const Tensors& in) { return {add_bias(in[0], {in[1], in[2]})}; }

Tensors naive(const Tensors& in) {
  const Tensor &x = in[0], &a = in[1], &b = in[2];
  Tensor y = empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t c = i % x.cols();
    y.set(i, x.at(i) + (c < a.numel() ? a.at(c) : b.at(c - a.numel())));
  }
  return {y};
}

OpCase bias_case(const std::string& name, int64_t rows, int64_t first, int64_t second) {
  return {.name = name,
          .inputs = {{.shape = {rows, first + second}},
                     InputSpec::parameter({first}),
                     InputSpec::parameter({second})},
          .run = run,
          .naive = naive};
}

}  // namespace

OpSpec add_bias_spec() {
  constexpr int64_t kN = 65536, kC = 512;
  constexpr double kBytes = double(kN) * kC * 4;
  return {.name = "add_bias",
          .cases = {bias_case("two pieces", 70, 16, 16), bias_case("uneven pieces", 3, 1, 6),
                    bias_case("no rows", 0, 4, 4)},
          .benches = {{.name = "65536 x 512",
                       .inputs = {{.shape = {kN, kC}},
                                  InputSpec::parameter({kC / 2}),
                                  InputSpec::parameter({kC / 2})},
                       .run = run,
                       .forward_read_bytes = kBytes,
                       .forward_write_bytes = kBytes,
                       .backward_read_bytes = kBytes,
                       .backward_write_bytes = kBytes}}};
}

}  // namespace tephra

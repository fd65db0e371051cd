// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/route.h"

#include <cmath>
#include <vector>

#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

Tensors run(const Tensors& in) {
  const Routing out = route(in[0], in[1]);
  return {out.weight_N, out.expert_N};
}

Tensors naive(const Tensors& in) {
  const Tensor &logits = in[0], &biases = in[1];
  const int64_t classes = logits.cols();
  Tensor weight({logits.rows()}, DType::f64), expert({logits.rows()}, DType::i32);
  for (int64_t r = 0; r < logits.rows(); ++r) {
    double sum = 0;
    for (int64_t i = 0; i < classes; ++i) sum += std::exp(logits.at(r * classes + i));
    int64_t best = 0;
    double best_p = 0;
    for (int64_t i = 0; i < classes; ++i) {
      const double p = std::exp(logits.at(r * classes + i)) / sum;
      if (i == 0 || p + biases.at(i) > best_p + biases.at(best)) {
        best = i;
        best_p = p;
      }
    }
    weight.set(r, best_p);
    expert.set(r, static_cast<double>(best));
  }
  return {weight, expert};
}

std::vector<InputSpec> inputs(int64_t rows, int64_t classes, double bias_scale) {
  InputSpec biases = InputSpec::stream({classes}, 0, bias_scale);
  biases.gradient = false;
  return {{.shape = {rows, classes}}, biases};
}

OpCase route_case(const std::string& name, int64_t rows, int64_t classes, double bias_scale) {
  return {.name = name, .inputs = inputs(rows, classes, bias_scale), .run = run, .naive = naive};
}

OpCase strided_case() {
  OpCase c = route_case("a block of columns", 9, 5, 0.1);
  c.inputs[0].shape = {9, 12};
  c.run = [](const Tensors& in) { return run({slice_columns(in[0], 3, 8), in[1]}); };
  c.naive = [](const Tensors& in) { return naive({clone(in[0].column_view(3, 8)), in[1]}); };
  return c;
}

}  // namespace

OpSpec route_spec() {
  constexpr int64_t kN = 16384, kClasses = 17;
  return {.name = "route",
          .cases = {route_case("16 experts and the skip class", 300, 17, 0.1),
                    route_case("biases that outweigh the probabilities", 20, 5, 2),
                    route_case("one class", 3, 1, 1), route_case("no tokens", 0, 17, 1),
                    route_case("many classes", 7, 130, 0.01), strided_case()},
          .benches = {{.name = "16384 x 17",
                       .inputs = inputs(kN, kClasses, 0.1),
                       .run = run,
                       .forward_read_bytes = double(kN) * kClasses * 4,
                       .forward_write_bytes = double(kN) * 8,
                       .backward_read_bytes = double(kN) * (kClasses * 4 + 8),
                       .backward_write_bytes = double(kN) * kClasses * 4}}};
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/linear_cross_entropy.h"

#include <cmath>
#include <vector>

#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

// Inputs: h, weight, targets, and bias where there is one.
Tensor bias_of(const Tensors& in) { return in.size() > 3 ? in[3] : Tensor(); }

Tensors naive(const Tensor& h, const Tensor& weight, const Tensor& targets, const Tensor& bias,
              double scale) {
  const int64_t width = h.cols(), vocabulary = weight.rows();
  double loss = 0;
  for (int64_t r = 0; r < h.rows(); ++r) {
    const int64_t target = static_cast<int64_t>(targets.at(r));
    if (target < 0) continue;
    double sum = 0, score = 0;
    for (int64_t v = 0; v < vocabulary; ++v) {
      double logit = bias ? bias.at(v) : 0;
      for (int64_t i = 0; i < width; ++i) logit += h.at(r * width + i) * weight.at(v * width + i);
      sum += std::exp(logit);
      if (v == target) score = logit;
    }
    loss += std::log(sum) - score;
  }
  return {full({1}, DType::f64, scale * loss)};
}

// Some targets anywhere in the vocabulary; every `ignore_every`-th is ignored.
Tensor some_targets(int64_t tokens, int64_t vocabulary, int64_t ignore_every) {
  Tensor targets({tokens}, DType::i32);
  for (int64_t r = 0; r < tokens; ++r) {
    const bool ignored = ignore_every > 0 && r % ignore_every == 0;
    targets.data<int32_t>()[r] = ignored ? -1 : static_cast<int32_t>((r * 7919 + 3) % vocabulary);
  }
  return targets;
}

struct Sizes {
  int64_t tokens, width, vocabulary;
};

std::vector<InputSpec> inputs(Sizes s, int64_t ignore_every, bool with_bias) {
  std::vector<InputSpec> in = {
      {.shape = {s.tokens, s.width}},
      InputSpec::parameter({s.vocabulary, s.width}, 0,
                           1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, s.width)))),
      InputSpec::index(some_targets(s.tokens, s.vocabulary, ignore_every))};
  if (with_bias) in.push_back(InputSpec::parameter({s.vocabulary}));
  return in;
}

OpCase loss_case(const std::string& name, Sizes s, int64_t ignore_every, bool with_bias,
                 double scale = 1) {
  OpCase c;
  c.name = name;
  c.scalar_loss = true;
  c.inputs = inputs(s, ignore_every, with_bias);
  c.run = [=](const Tensors& in) -> Tensors {
    return {linear_cross_entropy(in[0], in[1], bias_of(in), in[2], scale)};
  };
  c.naive = [=](const Tensors& in) { return naive(in[0], in[1], in[2], bias_of(in), scale); };
  return c;
}

// Logits far from zero, one way in some tiles of the vocabulary or in all of them.
OpCase far_case(const std::string& name, double mean, double spread) {
  constexpr Sizes kSizes{70, 64, 1000};
  OpCase c = loss_case(name, kSizes, 9, false, 0.05);
  c.inputs[0].mean = mean == 0 ? 0 : 1;
  c.inputs[0].scale = mean == 0 ? 1 : 0.25;
  c.inputs[1].mean = mean / static_cast<double>(kSizes.width);
  c.inputs[1].scale = spread / std::sqrt(static_cast<double>(kSizes.width));
  return c;
}

OpCase strided_case() {
  OpCase c = loss_case("a block of columns", {9, 5, 11}, 4, true, 0.5);
  c.inputs[0].shape = {9, 12};
  const auto run = c.run, plain = c.naive;
  c.run = [=](const Tensors& in) { return run({slice_columns(in[0], 3, 8), in[1], in[2], in[3]}); };
  c.naive = [=](const Tensors& in) {
    return plain({clone(in[0].column_view(3, 8)), in[1], in[2], in[3]});
  };
  return c;
}

}  // namespace

OpSpec linear_cross_entropy_spec() {
  constexpr int64_t kN = 2048, kH = 512, kV = 8192;
  constexpr double kFlops = 2.0 * kN * kH * kV;
  return {
      .name = "linear_cross_entropy",
      .cases = {loss_case("a few tokens", {5, 8, 13}, 0, false),
                loss_case("with a bias and a scale", {6, 7, 19}, 3, true, 0.25),
                loss_case("odd sizes, every other token ignored", {67, 33, 301}, 2, false, 0.02),
                loss_case("all targets ignored", {4, 6, 9}, 1, true),
                loss_case("no tokens", {0, 6, 9}, 0, true),
                loss_case("one word", {3, 4, 1}, 0, true),
                loss_case("eights of words", {21, 16, 328}, 4, true, 0.1),
                loss_case("tiles and parts of tiles", {200, 136, 776}, 7, false, 0.01),
                far_case("large logits in some tiles", 0, 18),
                far_case("only very small logits", -90, 1),
                far_case("only very large logits", 90, 1),
                loss_case("more tokens than a chunk", {4100, 3, 5}, 0, true, 1e-3), strided_case()},
      .benches = {{.name = "2048 x 512, vocabulary 8192",
                   .inputs = inputs({kN, kH, kV}, 0, false),
                   .run = [](const Tensors& in) -> Tensors {
                     return {linear_cross_entropy(in[0], in[1], Tensor(), in[2], 1.0 / kN)};
                   },
                   .forward_flops = kFlops,
                   .backward_flops = 2 * kFlops,
                   .forward_gemms = {{kN, kV, kH, false, true}},
                   .backward_gemms = {{kN, kH, kV}, {kV, kH, kN, true, false}},
                   .gradients_in_forward = true}}};
}

}  // namespace tephra

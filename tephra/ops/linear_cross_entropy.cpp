// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/linear_cross_entropy.h"

#include <algorithm>

#include "tephra/autograd/tape.h"
#include "tephra/base/parallel.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

void check(const Tensor& h, const Tensor& weight, const Tensor& bias, const Tensor& targets) {
  require(h.ndim() == 2, "linear_cross_entropy: h must be [tokens, width], got {}", h.shape());
  require(weight.ndim() == 2 && weight.dim(1) == h.cols() && weight.dim(0) >= 1,
          "linear_cross_entropy: weight must be [vocabulary, {}] to match h {}, got {}", h.cols(),
          h.shape(), weight.shape());
  require(!bias || bias.shape() == Shape{weight.dim(0)},
          "linear_cross_entropy: bias must be [{}] to match weight {}, got {}", weight.dim(0),
          weight.shape(), bias.shape());
  require(weight.dtype() == h.dtype() && (!bias || bias.dtype() == h.dtype()),
          "linear_cross_entropy: weight is {} and bias {}, h is {}", weight.dtype(),
          bias ? bias.dtype() : weight.dtype(), h.dtype());
  require(targets.shape() == Shape{h.rows()} && targets.dtype() == DType::i32,
          "linear_cross_entropy: targets must be i32 [{}] to match h {}, got {} {}", h.rows(),
          h.shape(), targets.dtype(), targets.shape());
  // Here, before any gradient counts as written.
  if (targets.device().kind != Device::Kind::cpu) return;
  const int64_t vocabulary = weight.dim(0);
  const int32_t* target = targets.data<int32_t>();
  for (int64_t r = 0; r < targets.numel(); ++r) {
    require_data(target[r] >= -1 && target[r] < vocabulary,
                 "linear_cross_entropy: token {} has target {}, outside the vocabulary of {}; -1 "
                 "ignores a token",
                 r, target[r], vocabulary);
  }
}

void require_leaf(const Tensor& x, const char* name) {
  require(
      !x.variable() || x.variable()->leaf,
      "linear_cross_entropy: {} must be a parameter, got the output of another op; its gradient "
      "is complete before backward begins",
      name);
}

}  // namespace

void kernel::ScaledSum::on_cpu() const {
  double sum = 0;
  for (int64_t i = 0; i < losses.numel(); ++i) sum += losses.at(i);
  loss.set(0, scale * sum);
}

Tensor linear_cross_entropy(const Tensor& h, const Tensor& weight, const Tensor& bias,
                            const Tensor& given_targets, double scale) {
  check(h, weight, bias, given_targets);
  const Tensor targets_N = to_device(given_targets, h.device());
  Tensor losses({h.rows()}, acc_dtype(h.dtype()), h.device());
  kernel::LinearCrossEntropy k{h, weight, bias, targets_N, losses, scale};
  const Tensors inputs = {h, weight, bias, targets_N};
  if (std::optional<GradSink> sink = forward_sink(inputs)) {
    require_leaf(weight, "weight");
    require_leaf(bias, "bias");
    if (h.variable()) k.dh = empty_like(h);
    const GradTarget dweight = sink->target_if_wanted(1), dbias = sink->target_if_wanted(2);
    k.dweight = dweight.grad;
    k.accumulate_dweight = dweight.accumulate;
    k.dbias = dbias.grad;
    k.accumulate_dbias = dbias.accumulate;
  }
  launch(h.device(), "linear_cross_entropy", k);
  Tensor loss({1}, losses.dtype(), losses.device());
  launch(h.device(), "linear_cross_entropy", kernel::ScaledSum{losses, scale, loss});

  // No replay: nothing reads a loss again, and its gradients must not be added twice.
  record({.name = "linear_cross_entropy",
          .op_class = OpClass::loss,
          .inputs = inputs,
          .saved = {k.dh}},
         {&loss}, [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
           TEPHRA_ASSERT(dy[0].at(0) == 1, "backward starts at the fused loss, with gradient 1");
           if (sink.wants(0)) sink.give(0, saved[0]);
         });
  return loss;
}

Tensor token_losses(const Tensor& h, const Tensor& weight, const Tensor& bias,
                    const Tensor& given_targets) {
  check(h, weight, bias, given_targets);
  const Tensor targets_N = to_device(given_targets, h.device());
  Tensor losses({h.rows()}, acc_dtype(h.dtype()), h.device());
  launch(h.device(), "token_losses",
         kernel::LinearCrossEntropy{h, weight, bias, targets_N, losses});
  return losses;
}

int64_t gpu_logit_rows(int64_t rows, int64_t vocabulary, int64_t bytes) {
  constexpr int64_t kBytes = int64_t{9} << 28, kTile = 256;
  const int64_t most = std::max<int64_t>(16, kBytes / (bytes * vocabulary));
  if (rows <= most) return rows;
  if (most < kTile) return most;
  const int64_t pieces = ceil_div(rows, most / kTile * kTile);
  return ceil_div(ceil_div(rows, pieces), kTile) * kTile;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/linear.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

void check(const Tensor& x, const Tensors& weights, const Tensors& biases) {
  require(x.ndim() == 2, "linear: x must be [tokens, width], got {}", x.shape());
  require(!weights.empty(), "linear: expected at least one weight");
  require(biases.size() == weights.size(), "linear: expected one bias per weight ({}), got {}",
          weights.size(), biases.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor &w = weights[i], &b = biases[i];
    require(w.ndim() == 2 && w.cols() == x.cols(),
            "linear: weight must be [out, {}] to match the last axis of x {}, got {}", x.cols(),
            x.shape(), w.shape());
    const bool widened = x.dtype() == DType::f32 && w.dtype() == DType::bf16 && !w.variable();
    require(w.dtype() == x.dtype() || widened, "linear: weight is {}, x is {}", w.dtype(),
            x.dtype());
    require(w.dtype() == weights[0].dtype(), "linear: weights are {} and {}; expected one dtype",
            weights[0].dtype(), w.dtype());
    if (!b.defined()) continue;
    require(b.shape() == Shape{w.rows()}, "linear: bias must be [{}] to match weight {}, got {}",
            w.rows(), w.shape(), b.shape());
    require(b.dtype() == x.dtype(), "linear: bias is {}, x is {}", b.dtype(), x.dtype());
  }
}

Tensor forward(const Tensor& x, const Tensors& weights, const Tensors& biases, DType dtype) {
  check(x, weights, biases);
  int64_t out = 0;
  for (const Tensor& w : weights) out += w.rows();
  Tensor y({x.rows(), out}, dtype, x.device());
  launch(x.device(), "linear", kernel::Linear{x, weights, biases, y});
  return y;
}

// Inputs on the tape: x, then the weights, then as many biases.
Tensors inputs_of(const Tensor& x, const Tensors& weights, const Tensors& biases) {
  Tensors inputs{x};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  return inputs;
}

struct WeightGrads {
  std::vector<GradTarget> weights, biases;

  // Whether they lie one after another, all are wanted alike, and no bias is.
  bool joined() const {
    Tensors grads;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (biases[i].grad || weights[i].accumulate != weights[0].accumulate) return false;
      grads.push_back(weights[i].grad);
    }
    return joined_rows(grads) > 0;
  }
};

// saved: x, then the weights.
void backward(const Tensors& saved, const Tensors& dy, GradSink& sink) {
  const size_t count = saved.size() - 1;
  const GradTarget dx = sink.target_if_wanted(0);
  WeightGrads d;
  for (size_t i = 0; i < count; ++i) {
    d.weights.push_back(sink.target_if_wanted(1 + i));
    d.biases.push_back(sink.target_if_wanted(1 + count + i));
  }
  const bool on_gpu = saved[0].device().kind == Device::Kind::gpu;
  if (count > 1 && on_gpu && joined_rows({saved.begin() + 1, saved.end()}) > 0 && d.joined()) {
    // One large product is faster than several.
    return launch(saved[0].device(), "linear",
                  kernel::LinearGrad{dy[0],
                                     saved[0],
                                     saved[1],
                                     dx.grad,
                                     dx.accumulate,
                                     d.weights[0].grad,
                                     d.weights[0].accumulate,
                                     {},
                                     false});
  }
  int64_t column = 0;
  for (size_t i = 0; i < count; ++i) {
    const Tensor& weight = saved[1 + i];
    const GradTarget &dw = d.weights[i], &db = d.biases[i];
    const int64_t end = column + weight.rows();
    launch(
        weight.device(), "linear",
        kernel::LinearGrad{dy[0].column_view(column, end), saved[0], weight, dx.grad,
                           dx.accumulate || i > 0, dw.grad, dw.accumulate, db.grad, db.accumulate});
    column = end;
  }
}

}  // namespace

int64_t joined_rows(const Tensors& matrices) {
  int64_t rows = 0;
  for (const Tensor& m : matrices) {
    if (!m || m.ndim() != 2 || !m.dense() || m.rows() == 0) return 0;
    const Tensor& first = matrices[0];
    const auto* place =
        static_cast<const char*>(first.raw()) + rows * first.cols() * size_of(first.dtype());
    if (m.raw() != place || m.cols() != first.cols() || m.dtype() != first.dtype()) return 0;
    rows += m.rows();
  }
  return rows;
}

Tensor linear(const Tensor& x, const Tensors& weights, const Tensors& biases) {
  if (biases.empty() && !weights.empty()) {
    return linear(x, weights, Tensors(weights.size()));
  }
  Tensor y = forward(x, weights, biases, x.dtype());
  if (!Tape::current()) return y;

  Tensors saved{x};
  saved.insert(saved.end(), weights.begin(), weights.end());
  record({.name = "linear",
          .op_class = OpClass::linear,
          .inputs = inputs_of(x, weights, biases),
          .saved = std::move(saved)},
         {&y}, backward,
         [count = static_cast<int64_t>(weights.size())](const Tensors& in) -> Tensors {
           return {linear(in[0], Tensors(in.begin() + 1, in.begin() + 1 + count),
                          Tensors(in.begin() + 1 + count, in.end()))};
         });
  return y;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear(x, Tensors{weight}, Tensors{bias});
}

Tensor linear_acc(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return forward(x, {weight}, {bias}, acc_dtype(x.dtype()));
}

namespace {

void check_packed(const Tensor& x, const Weights& weights, const Tensors& biases) {
  const bool narrow = x.dtype() == DType::bf16 && x.device().kind == Device::Kind::gpu;
  require(
      x.ndim() == 2 && (x.dtype() == DType::f32 || narrow),
      "linear: with quantised weights x must be f32 [tokens, width], on a GPU also bf16, got {} "
      "{}",
      x.dtype(), x.shape());
  require(biases.size() == weights.size(), "linear: expected one bias per weight ({}), got {}",
          weights.size(), biases.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const Shape& shape = weights[i].shape();
    require(shape.ndim() == 2 && shape[1] == x.cols(),
            "linear: weight must be [out, {}] to match the last axis of x {}, got {}", x.cols(),
            x.shape(), shape);
    require(!biases[i] || (biases[i].shape() == Shape{shape[0]} && biases[i].dtype() == x.dtype()),
            "linear: bias must be {} [{}] to match weight {}, got {} {}", x.dtype(), shape[0],
            shape, biases[i].dtype(), biases[i].shape());
  }
}

Tensor packed_forward(const Tensor& x, const Weights& weights, const Tensors& biases, DType dtype) {
  check_packed(x, weights, biases);
  int64_t out = 0;
  for (const Weight& w : weights) out += w.shape()[0];
  Tensor y({x.rows(), out}, dtype, x.device());
  launch(x.device(), "linear", kernel::PackedLinear{x, weights, biases, y});
  return y;
}

}  // namespace

Tensor linear(const Tensor& x, const Weights& weights, const Tensors& biases) {
  if (!all_packed(weights)) return linear(x, tensors_of(weights), biases);
  return packed_forward(x, weights, biases.empty() ? Tensors(weights.size()) : biases, x.dtype());
}

Tensor linear(const Tensor& x, const Weight& weight, const Tensor& bias) {
  if (!weight.is_packed()) return linear(x, weight.tensor(), bias);
  return packed_forward(x, {weight}, {bias}, x.dtype());
}

Tensor linear_acc(const Tensor& x, const Weight& weight, const Tensor& bias) {
  if (!weight.is_packed()) return linear_acc(x, weight.tensor(), bias);
  return packed_forward(x, {weight}, {bias}, acc_dtype(x.dtype()));
}

}  // namespace tephra

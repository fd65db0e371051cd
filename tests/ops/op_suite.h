// SPDX-License-Identifier: Apache-2.0
// What the op suites of all devices share: cases, tolerances, and runs with gradients.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tephra/autograd/tape.h"
#include "tephra/base/parallel.h"
#include "tephra/core/rng.h"
#include "tephra/ops/op_spec.h"

namespace tephra::op_suite {

struct Named {
  std::string op;
  OpCase test;
};

inline void PrintTo(const Named& n, std::ostream* out) { *out << n.op << ": " << n.test.name; }

inline std::vector<Named> all_cases() {
  std::vector<Named> cases;
  for (const OpSpec& spec : all_op_specs()) {
    for (const OpCase& c : spec.cases) cases.push_back({spec.name, c});
  }
  return cases;
}

// A fresh f64 copy on the CPU: values as given, leaves where the original has them.
inline Tensors widened(const Tensors& inputs) {
  Tensors wide;
  for (const Tensor& t : inputs) {
    if (!t.defined() || !computes(t.dtype())) {
      wide.push_back(to_device(t, kCpu));
      continue;
    }
    Tensor w(t.shape(), DType::f64);
    copy_into(w, t);
    if (t.variable()) make_leaf(w, DType::f64);
    wide.push_back(w);
  }
  return wide;
}

inline bool is_float(const Tensor& t) { return t.defined() && computes(t.dtype()); }

// Among the finite values: one -inf must not loosen the bound of all others.
inline double largest(const Tensor& t) {
  double m = 0;
  for (int64_t i = 0; i < t.numel(); ++i) {
    if (std::isfinite(t.at(i))) m = std::max(m, std::abs(t.at(i)));
  }
  return m;
}

// Largest difference, as a share of the largest reference value; NaN anywhere fails.
inline void expect_close(const Tensor& found, const Tensor& want, double tolerance,
                         const std::string& what) {
  const Tensor got = to_device(found, kCpu);
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const double scale = std::max(largest(want), 1e-6);
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double g = got.at(i), w = want.at(i);
    if (!is_float(want)) {
      ASSERT_EQ(g, w) << what << " at " << i;
    } else if (std::isinf(w)) {
      ASSERT_EQ(g, w) << what << " at " << i;
    } else {
      ASSERT_LE(std::abs(g - w), tolerance * scale)
          << what << " at " << i << ": got " << g << ", want " << w;
    }
  }
}

// The gradient each output is given; fixed, so that every run of a case has the same.
inline Tensors output_gradients(const Tensors& outputs, bool scalar_loss) {
  Tensors dy;
  uint32_t stream = 100;
  for (const Tensor& out : outputs) {
    ++stream;
    if (!is_float(out)) {
      dy.emplace_back();
      continue;
    }
    Tensor d(out.shape(), out.dtype());
    if (scalar_loss) {
      fill(d, 1);
    } else {
      fill_normal(d, {7, stream, 0}, 0, 1);
    }
    dy.push_back(to_device(d, out.device()));
  }
  return dy;
}

struct Result {
  Tensors outputs;
  Tensors gradients;  // undefined where the input is no leaf
};

inline Result run_with_gradients(const OpCase& c, const Tensors& inputs, bool clear = true,
                                 const Recompute& recompute = {}) {
  for (const Tensor& t : inputs) {
    if (clear && t.defined() && t.variable()) clear_gradient(t);
  }
  Tape tape(recompute);
  Result result;
  result.outputs = c.run(inputs);
  tape.backward(result.outputs, output_gradients(result.outputs, c.scalar_loss));
  for (const Tensor& t : inputs) {
    result.gradients.push_back(t.defined() && t.variable() ? clone(gradient(t)) : Tensor());
  }
  return result;
}

inline double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 1e-5;
    default:
      return 2e-2;  // bf16: 8 bits of mantissa, through a few roundings
  }
}

// A consumer that needs the op's output in its own backward pass: y -> y^2 / 2, so dy = y * d.
inline Tensor half_square(const Tensor& y) {
  const Tensor host = to_device(y, kCpu), squared = empty_like(host);
  for (int64_t i = 0; i < y.numel(); ++i) squared.set(i, host.at(i) * host.at(i) / 2);
  Tensor out = to_device(squared, y.device());
  record({.name = "half_square", .op_class = OpClass::loss, .inputs = {y}, .saved = {y}}, {&out},
         [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
           const Tensor in = to_device(saved[0], kCpu), d = to_device(dy[0], kCpu);
           const Tensor dx = empty_like(in);
           for (int64_t i = 0; i < dx.numel(); ++i) dx.set(i, in.at(i) * d.at(i));
           sink.give(0, to_device(dx, saved[0].device()));
         });
  return out;
}

// The same inputs as blocks of columns of wider tensors, which is how models pass them.
inline Tensors as_blocks_of_columns(const OpCase& c, const Tensors& dense) {
  Tensors strided;
  for (size_t i = 0; i < dense.size(); ++i) {
    const Role role = c.inputs[i].role;
    if (dense[i].ndim() != 2 || (role != Role::activation && role != Role::stream)) {
      strided.push_back(dense[i]);
      continue;
    }
    const Shape shape{dense[i].rows(), dense[i].cols() + 3};
    const Tensor wide = to_device(full(shape, dense[i].dtype(), NAN), dense[i].device());
    Tensor part = wide.column_view(2, dense[i].cols() + 2);
    copy_into(part, dense[i]);
    if (dense[i].variable()) make_leaf(part, part.dtype());
    strided.push_back(part);
  }
  return strided;
}

}  // namespace tephra::op_suite

// SPDX-License-Identifier: Apache-2.0
// Ops so small that their gradients can be checked by eye; they record like the real ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tephra/autograd/tape.h"

namespace tephra::toy {

inline Tensor values(const Shape& shape, const std::vector<float>& v) {
  return from_values<float>(shape, v);
}

inline Tensor leaf(const Shape& shape, const std::vector<float>& v) {
  Tensor t = values(shape, v);
  make_leaf(t, DType::f32);
  return t;
}

inline std::vector<double> list(const Tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.numel(); ++i) v.push_back(t.at(i));
  return v;
}

// Every backward call adds the op's name here, so that a test can read the order of the walk.
inline std::vector<std::string>& walked() {
  static std::vector<std::string> names;
  return names;
}

// How often a forward pass has run, replays included.
inline int& forwards() {
  static int count = 0;
  return count;
}

// y = factor * x, written through the target.
inline Tensor scale(const Tensor& x, double factor, OpClass op_class = OpClass::activation) {
  ++forwards();
  Tensor y = empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) y.set(i, factor * x.at(i));
  record(
      {.name = "scale", .op_class = op_class, .inputs = {x}}, {&y},
      [factor](const Tensors&, const Tensors& dy, GradSink& sink) {
        walked().push_back("scale");
        const auto [dx, accumulate] = sink.target(0);
        for (int64_t i = 0; i < dx.numel(); ++i) {
          dx.set(i, (accumulate ? dx.at(i) : 0) + factor * dy[0].at(i));
        }
      },
      [factor, op_class](const Tensors& in) -> Tensors {
        return {scale(in[0], factor, op_class)};
      });
  return y;
}

// y = x * x: needs x again in its backward pass.
inline Tensor square(const Tensor& x, OpClass op_class = OpClass::norm) {
  ++forwards();
  Tensor y = empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) y.set(i, x.at(i) * x.at(i));
  record(
      {.name = "square", .op_class = op_class, .inputs = {x}, .saved = {x}}, {&y},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        walked().push_back("square");
        Tensor dx = empty_like(saved[0]);
        for (int64_t i = 0; i < dx.numel(); ++i) dx.set(i, 2 * saved[0].at(i) * dy[0].at(i));
        sink.give(0, dx);
      },
      [op_class](const Tensors& in) -> Tensors { return {square(in[0], op_class)}; });
  return y;
}

// a + b; hands the very same gradient to both.
inline Tensor add(const Tensor& a, const Tensor& b) {
  Tensor y = clone(a).detach();
  add_into(y, b);
  record({.name = "add", .op_class = OpClass::activation, .inputs = {a, b}}, {&y},
         [](const Tensors&, const Tensors& dy, GradSink& sink) {
           walked().push_back("add");
           if (sink.wants(0)) sink.give(0, dy[0]);
           if (sink.wants(1)) sink.give(1, dy[0]);
         });
  return y;
}

inline Tensor sum(const Tensor& x) {
  Tensor y = zeros({1}, x.dtype());
  for (int64_t i = 0; i < x.numel(); ++i) y.set(0, y.at(0) + x.at(i));
  record({.name = "sum", .op_class = OpClass::loss, .inputs = {x}}, {&y},
         [](const Tensors&, const Tensors& dy, GradSink& sink) {
           walked().push_back("sum");
           const auto [dx, accumulate] = sink.target(0);
           for (int64_t i = 0; i < dx.numel(); ++i) {
             dx.set(i, (accumulate ? dx.at(i) : 0) + dy[0].at(0));
           }
         });
  return y;
}

}  // namespace tephra::toy

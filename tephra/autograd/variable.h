// SPDX-License-Identifier: Apache-2.0
// What autograd knows about a value: who made it and where its gradient goes. Ops never touch this;
// they see the GradSink.
#pragma once

#include <memory>
#include <vector>

#include "tephra/core/tensor.h"

namespace tephra {

struct Node;

struct ColumnRange {
  int64_t begin;
  int64_t end;
};

struct Variable {
  Shape shape;
  DType grad_dtype = DType::f32;
  Device device;

  // A computed value.
  Node* producer = nullptr;  // owned by the tape numbered `tape`
  int output = 0;            // which output of the producer
  uint64_t tape = 0;

  // A leaf: its gradient has a fixed place that outlives every tape.
  bool leaf = false;
  int bucket = -1;  // of the flat gradient buffer, see ParameterStore

  // The gradient, and which of its columns have been written since it was last cleared.
  Tensor grad;
  std::vector<ColumnRange> written;
  bool borrowed = false;  // given by an op that may still hold it: copied before it is added to

  // A view: columns [view.begin, view.end) of `base`, which is never itself a view.
  std::shared_ptr<Variable> base;
  ColumnRange view{0, 0};

  bool has_grad() const { return !written.empty(); }
  // The gradient with unwritten columns zeroed; undefined when nothing was written.
  Tensor take_grad();
  // Of a leaf: zeroes whatever nothing has written.
  void complete_grad();
};

// Where one input's gradient goes. With `accumulate` the op adds to what is there, else it
// overwrites; it writes every element either way.
struct GradTarget {
  Tensor grad;
  bool accumulate = false;
};

// How an op's backward pass hands out gradients. Straight into the flat buffer for parameters, so a
// matrix product accumulates by beta = 1 and nothing is added up twice.
class GradSink {
 public:
  explicit GradSink(const std::vector<std::shared_ptr<Variable>>& inputs) : inputs_(inputs) {}

  // Whether anybody needs the gradient of input i. An op skips the work when not.
  bool wants(size_t i) const { return inputs_[i] != nullptr; }
  // The place to write it to; ask once per input, and only if wanted.
  GradTarget target(size_t i);
  // The same, undefined when nobody wants it.
  GradTarget target_if_wanted(size_t i) { return wants(i) ? target(i) : GradTarget{}; }
  // Hands over a finished gradient: kept as it is when it is the first, else added.
  void give(size_t i, const Tensor& grad);

 private:
  std::vector<std::shared_ptr<Variable>> inputs_;
};

// A leaf with a gradient buffer of its own; `x` gets the variable.
void make_leaf(Tensor& x, DType grad_dtype);
// A leaf whose gradient lives in `grad`.
void make_leaf(Tensor& x, const Tensor& grad);
// The gradient of a leaf, zero where nothing was written.
Tensor gradient(const Tensor& leaf);
// Forgets the gradient of a leaf: the next write overwrites it.
void clear_gradient(const Tensor& leaf);

// Columns [begin, end) of x as a view through which gradients flow into x's.
Tensor slice_columns(const Tensor& x, int64_t begin, int64_t end);

// to += from, element by element, in acc precision. Shapes agree; dtypes may differ.
void add_into(const Tensor& to, const Tensor& from);

namespace kernel {

struct AddInto {
  const Tensor& to;
  const Tensor& from;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra

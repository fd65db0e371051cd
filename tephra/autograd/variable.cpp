// SPDX-License-Identifier: Apache-2.0
#include "tephra/autograd/variable.h"

#include <algorithm>

#include "tephra/base/parallel.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

void zero_columns(const Tensor& grad, ColumnRange range) {
  if (range.begin < range.end) fill(grad.column_view(range.begin, range.end), 0);
}

// Zeroes the parts of `range` that nobody has written yet.
void zero_gaps(const Tensor& grad, std::vector<ColumnRange> written, ColumnRange range) {
  std::sort(written.begin(), written.end(),
            [](ColumnRange a, ColumnRange b) { return a.begin < b.begin; });
  int64_t at = range.begin;
  for (const ColumnRange& w : written) {
    zero_columns(grad, {at, std::min(w.begin, range.end)});
    at = std::max(at, w.end);
  }
  zero_columns(grad, {at, range.end});
}

GradTarget target_of(Variable& root, ColumnRange range) {
  if (!root.grad.defined()) root.grad = Tensor(root.shape, root.grad_dtype, root.device);
  if (root.borrowed && !root.grad.sole_owner()) root.grad = clone(root.grad);
  root.borrowed = false;
  const bool whole = range.begin == 0 && range.end == root.shape.cols();
  const Tensor part = whole ? root.grad : root.grad.column_view(range.begin, range.end);

  const bool untouched = std::none_of(
      root.written.begin(), root.written.end(),
      [&](const ColumnRange& w) { return w.begin < range.end && range.begin < w.end; });
  if (untouched) {
    root.written.push_back(range);
    return {part, false};
  }
  zero_gaps(root.grad, root.written, range);
  root.written.push_back(range);
  return {part, true};
}

}  // namespace

Tensor Variable::take_grad() {
  if (!has_grad()) return {};
  zero_gaps(grad, written, {0, shape.cols()});
  return grad;
}

void Variable::complete_grad() {
  if (has_grad()) {
    zero_gaps(grad, written, {0, shape.cols()});
  } else {
    fill(grad, 0);
  }
}

GradTarget GradSink::target(size_t i) {
  TEPHRA_ASSERT(wants(i), "an op asks only for gradients that are wanted");
  Variable& v = *inputs_[i];
  if (v.base) return target_of(*v.base, v.view);
  return target_of(v, {0, v.shape.cols()});
}

void GradSink::give(size_t i, const Tensor& grad) {
  TEPHRA_ASSERT(wants(i), "an op gives only gradients that are wanted");
  Variable& v = *inputs_[i];
  require(grad.shape() == v.shape, "a gradient of {} does not fit a value of {}", grad.shape(),
          v.shape);
  if (!v.base && !v.leaf && !v.has_grad() && grad.dtype() == v.grad_dtype) {
    v.grad = grad.detach();
    v.borrowed = true;
    v.written = {{0, v.shape.cols()}};
    return;
  }
  const GradTarget t = target(i);
  if (t.accumulate) {
    add_into(t.grad, grad);
  } else {
    copy_into(t.grad, grad);
  }
}

void make_leaf(Tensor& x, const Tensor& grad) {
  require(grad.numel() == x.numel(), "a gradient of {} does not fit a leaf of {}", grad.shape(),
          x.shape());
  auto v = std::make_shared<Variable>();
  v->shape = x.shape();
  v->grad_dtype = grad.dtype();
  v->device = x.device();
  v->leaf = true;
  v->grad = grad;
  x.set_variable(std::move(v));
}

void make_leaf(Tensor& x, DType grad_dtype) {
  make_leaf(x, Tensor(x.shape(), grad_dtype, x.device(), Purpose::gradients));
}

Tensor gradient(const Tensor& leaf) {
  TEPHRA_ASSERT(leaf.variable() && leaf.variable()->leaf, "only leaves keep their gradients");
  leaf.variable()->complete_grad();
  return leaf.variable()->grad;
}

void clear_gradient(const Tensor& leaf) { leaf.variable()->written.clear(); }

Tensor slice_columns(const Tensor& x, int64_t begin, int64_t end) {
  Tensor part = x.column_view(begin, end);
  if (!x.variable()) return part;
  auto v = std::make_shared<Variable>(*x.variable());
  const int64_t shift = v->base ? v->view.begin : 0;
  if (!v->base) v->base = x.variable();
  v->grad = {};
  v->written.clear();
  v->shape = part.shape();
  v->view = {begin + shift, end + shift};
  part.set_variable(std::move(v));
  return part;
}

void add_into(const Tensor& to, const Tensor& from) {
  require(to.numel() == from.numel() && to.cols() == from.cols(), "add_into: cannot add {} to {}",
          from.shape(), to.shape());
  if (to.numel() > 0) launch(to.device(), "add_into", kernel::AddInto{to, from});
}

void kernel::AddInto::on_cpu() const {
  const int64_t cols = to.cols();
  visit_float(to.dtype(), [&]<class To>() {
    visit_float(from.dtype(), [&]<class From>() {
      using Acc = acc_t<To>;
      parallel_for(to.rows(), std::max<int64_t>(1, (1 << 16) / cols), [&](int64_t r0, int64_t r1) {
        for (int64_t r = r0; r < r1; ++r) {
          To* out = to.row<To>(r);
          const From* in = from.row<From>(r);
          for (int64_t c = 0; c < cols; ++c) out[c] = To(Acc(out[c]) + Acc(in[c]));
        }
      });
    });
  });
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Backward attention: a piece of work is one tile of queries and keys for one KV head;
// probabilities are computed again from q, k and lse. Tiles that share queries or keys are in
// different waves, so every gradient is summed in one fixed order.
#include "tephra/ops/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/attention_grad_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tephra/base/parallel.h"
#include "tephra/ops/attention_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {
namespace {

constexpr int64_t kRows = 128;
constexpr int64_t kKeys = 128;

// delta = sum(do * o) - dlse for each query and head.
template <class T>
Tensor row_deltas(const AttentionGrad& a) {
  using Acc = acc_t<T>;
  const int64_t dim = a.value_dim();
  Tensor delta(a.lse.shape(), a.lse.dtype(), kCpu, Purpose::workspace);
  parallel_for(a.q.rows(), 16, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t h = 0; h < a.lse.cols(); ++h) {
        Vec<T> dots = set<T>(0);
        for_each_vector<T>(a.d_o ? dim : 0, [&](int64_t c, int64_t n) HWY_ATTR {
          const int64_t at = h * dim + c;
          const auto o = load_up_to(a.o.row<T>(r) + at, n);
          dots = hn::MulAdd(load_up_to(a.d_o.row<T>(r) + at, n), o, dots);
        });
        const Acc dlse = a.dlse ? a.dlse.row<Acc>(r)[h] : Acc(0);
        delta.row<Acc>(r)[h] = sum_of_lanes<T>(dots) - dlse;
      }
    }
  });
  return delta;
}

// Scores become probabilities, gradients of probabilities those of raw scores; 0 where not visible.
// Both rows have room for a vector more than their columns.
template <class Acc>
void differentiate(Acc* s, Acc* dp, int64_t columns, Columns seen, Acc scale, Acc lse, Acc delta) {
  std::fill(s, s + seen.begin, Acc(0));
  std::fill(dp, dp + seen.begin, Acc(0));
  for (int64_t c = seen.begin; c < seen.end; c += lanes<Acc>()) {
    const auto p = exponential<Acc>(hn::MulSub(load(s + c), set<Acc>(scale), set<Acc>(lse)));
    const auto ds = hn::Mul(hn::Mul(p, set<Acc>(scale)), hn::Sub(load(dp + c), set<Acc>(delta)));
    store(s + c, p);
    store(dp + c, ds);
  }
  if (seen.end < columns) {
    std::fill(s + seen.end, s + columns, Acc(0));
    std::fill(dp + seen.end, dp + columns, Acc(0));
  }
}

template <class T>
class BackwardTile {
 public:
  using Acc = acc_t<T>;

  BackwardTile(const AttentionGrad& a, const Tensor& delta, const AttentionGrad::Sums& sums,
               const AttentionTile& tile, int64_t kv_head)
      : a_(a),
        delta_(delta),
        sums_(sums),
        tile_(tile),
        kv_head_(kv_head),
        dim_(a.head_dim),
        value_dim_(a.value_dim()),
        keys_(tile.key_end - tile.key),
        group_{a.q.cols() / a.k.cols(), dim_, tile.row, tile.row_end - tile.row,
               tile.row_end - tile.row == 1},
        values_(group_.with_dim(value_dim_)) {}

  void run() {
    const int64_t width = group_.width(), value_width = values_.width();
    Tensor owners[6];
    p_ = scratch<Acc>(owners[0], group_.rows(), keys_ + lanes<Acc>());
    ds_ = scratch<Acc>(owners[1], group_.rows(), keys_ + lanes<Acc>());
    const auto wide = [&](Tensor& owner, int64_t rows, int64_t cols) -> Acc* {
      if constexpr (std::is_same_v<T, Acc>) return nullptr;
      return scratch<Acc>(owner, rows, cols).data;
    };
    k_ = operand<T>(a_.k, tile_.key, keys_, kv_head_ * dim_, dim_, wide(owners[2], keys_, dim_));
    v_ = operand<T>(a_.v, tile_.key, keys_, kv_head_ * value_dim_, value_dim_,
                    wide(owners[3], keys_, value_dim_));
    const auto q = operand<T>(a_.q, tile_.row, group_.tokens, kv_head_ * width, width,
                              wide(owners[4], group_.tokens, width));
    Matrix<const Acc> d_o{nullptr, 0};
    if (a_.d_o) {
      d_o = operand<T>(a_.d_o, tile_.row, group_.tokens, kv_head_ * value_width, value_width,
                       wide(owners[5], group_.tokens, value_width));
    }
    for (int64_t i = 0; i < group_.count(); ++i) {
      const Matrix<const Acc> d_o_i = a_.d_o ? values_.at(d_o, i) : d_o;
      probabilities(i, group_.at(q, i), d_o_i);
      add_gradients(i, group_.at(q, i), d_o_i);
    }
  }

 private:
  void probabilities(int64_t i, Matrix<const Acc> q, Matrix<const Acc> d_o) {
    const int64_t rows = group_.rows();
    multiply<Acc>(rows, keys_, dim_, q, false, k_, true, p_, false);
    if (a_.d_o) {
      multiply<Acc>(rows, keys_, value_dim_, d_o, false, v_, true, ds_, false);
    } else {
      std::fill_n(ds_.data, rows * ds_.stride, Acc(0));
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t token = group_.token(r);
      const int64_t head = kv_head_ * group_.heads + group_.head(i, r);
      differentiate(p_.data + r * p_.stride, ds_.data + r * ds_.stride, keys_,
                    visible(a_.ranges, token, tile_.key, keys_), static_cast<Acc>(a_.scale),
                    a_.lse.row<Acc>(token)[head], delta_.row<Acc>(token)[head]);
    }
  }

  void add_gradients(int64_t i, Matrix<const Acc> q, Matrix<const Acc> d_o) {
    const int64_t rows = group_.rows();
    const Matrix<const Acc> p{p_.data, p_.stride}, ds{ds_.data, ds_.stride};
    const int64_t kv_column = kv_head_ * dim_;
    if (sums_.dv && a_.d_o) {
      multiply<Acc>(keys_, value_dim_, rows, p, true, d_o, false,
                    at(sums_.dv, tile_.key, kv_head_ * value_dim_), true);
    }
    if (sums_.dk) {
      multiply<Acc>(keys_, dim_, rows, ds, true, q, false, at(sums_.dk, tile_.key, kv_column),
                    true);
    }
    if (sums_.dq) {
      const Matrix<Acc> dq = at(sums_.dq, tile_.row, kv_column * group_.heads);
      multiply<Acc>(rows, dim_, keys_, ds, false, k_, false, group_.at(dq, i), true);
    }
  }

  static Matrix<Acc> at(const Tensor& x, int64_t row, int64_t column) {
    return {x.row<Acc>(row) + column, x.row_stride()};
  }

  const AttentionGrad& a_;
  const Tensor& delta_;
  const AttentionGrad::Sums& sums_;
  const AttentionTile tile_;
  const int64_t kv_head_, dim_, value_dim_, keys_;
  const Group group_, values_;  // the same heads, of queries and of values
  Matrix<Acc> p_, ds_;
  Matrix<const Acc> k_, v_;
};

void backward(const AttentionGrad& a, const AttentionGrad::Sums& sums) {
  const int64_t kv_heads = a.kv_heads();
  visit_float(a.q.dtype(), [&]<class T>() {
    const Tensor delta = row_deltas<T>(a);
    for (const std::vector<AttentionTile>& wave : tile_waves(a.ranges, kRows, kKeys)) {
      const int64_t pieces = static_cast<int64_t>(wave.size()) * kv_heads;
      parallel_for(pieces, 1, [&](int64_t piece, int64_t) {
        BackwardTile<T>(a, delta, sums, wave[static_cast<size_t>(piece / kv_heads)],
                        piece % kv_heads)
            .run();
      });
    }
  });
}

}  // namespace
}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {

HWY_EXPORT(backward);

// In place where that is possible: a gradient of the acc dtype that is written for the first time.
// (One that is added to may share memory with another, when a tensor is read as both k and v.)
bool in_place(const GradTarget& target) {
  return !target.accumulate && target.grad.dtype() == acc_dtype(target.grad.dtype());
}

Tensor sums_for(const GradTarget& target) {
  const Tensor& grad = target.grad;
  if (!grad) return {};
  if (!in_place(target)) {
    return zeros(grad.shape(), acc_dtype(grad.dtype()), kCpu, Purpose::workspace);
  }
  fill(grad, 0);
  return grad;
}

void finish(const Tensor& sums, const GradTarget& target) {
  if (!target.grad || in_place(target)) return;
  if (target.accumulate) {
    add_into(target.grad, sums);
  } else {
    copy_into(target.grad, sums);
  }
}

}  // namespace

void AttentionGrad::on_cpu() const {
  const AttentionGrad::Sums sums{sums_for(dq), sums_for(dk), sums_for(dv)};
  HWY_DYNAMIC_DISPATCH(backward)(*this, sums);
  finish(sums.dq, dq);
  finish(sums.dk, dk);
  finish(sums.dv, dv);
}

}  // namespace tephra::kernel
#endif

// SPDX-License-Identifier: Apache-2.0
// Forward attention: a piece of work is a block of queries and one KV head. It walks the keys tile
// by tile and keeps, for each query and head, the maximum score, the sum of exp(score - maximum)
// and the sum of values so weighted. Single queries on keys of their own are
// attention_decode_cpu.cpp's.
#include "tephra/ops/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/attention_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "tephra/base/parallel.h"
#include "tephra/ops/attention_decode.h"
#include "tephra/ops/attention_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {
namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kKeys = 512;
// Fewer rows are padded to so many in a product: below it, the library takes kernels whose sums
// have another order, and a row's bits would depend on how many neighbours it has.
constexpr int64_t kLeastRows = 16;

template <class Acc>
struct RowState {
  Acc max = -kInfinity<Acc>;
  Acc sum = 0;
};

// Turns the scores of the visible columns into exp(scale * score - max) and the others of the tile
// into 0. Returns what the sums of earlier tiles must be multiplied by. The row has room for a
// vector more than its columns.
template <class Acc>
Acc exponentiate(Acc* s, int64_t columns, Columns seen, Acc scale, RowState<Acc>& state) {
  std::fill(s, s + seen.begin, Acc(0));
  std::fill(s + seen.end, s + seen.end + lanes<Acc>(), -kInfinity<Acc>);
  auto top = set<Acc>(-kInfinity<Acc>);
  for (int64_t c = seen.begin; c < seen.end; c += lanes<Acc>()) top = hn::Max(top, load(s + c));
  const Acc max = std::max(state.max, max_of_lanes<Acc>(top) * scale);
  auto sums = set<Acc>(0);
  for (int64_t c = seen.begin; c < seen.end; c += lanes<Acc>()) {
    const auto p = exponential<Acc>(hn::MulSub(load(s + c), set<Acc>(scale), set<Acc>(max)));
    sums = hn::Add(sums, p);
    store(s + c, p);
  }
  if (seen.end < columns) std::fill(s + seen.end, s + columns, Acc(0));
  const Acc shrink = std::exp(state.max - max);
  state = {max, state.sum * shrink + sum_of_lanes<Acc>(sums)};
  return shrink;
}

template <class Acc>
void scale_row(Acc* x, int64_t width, Acc factor) {
  for_each_vector<Acc>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    store_up_to(x + c, hn::Mul(load_up_to(x + c, n), set<Acc>(factor)), n);
  });
}

template <class T>
class ForwardBlock {
 public:
  using Acc = acc_t<T>;

  ForwardBlock(const Attention& a, const AttentionTile& block, int64_t kv_head)
      : a_(a),
        block_(block),
        kv_head_(kv_head),
        dim_(a.head_dim),
        value_dim_(a.value_dim()),
        group_{a.q.cols() / a.k.cols(), dim_, block.row, block.row_end - block.row, false},
        values_(group_.with_dim(value_dim_)),
        product_rows_(std::max(group_.rows(), kLeastRows)),
        states_(static_cast<size_t>(group_.heads * group_.tokens)) {}

  void run() {
    const int64_t widest = std::min(kKeys, block_.key_end - block_.key);
    Tensor owners[5];
    scores_ = scratch<Acc>(owners[0], product_rows_, widest + lanes<Acc>());
    sums_ = scratch<Acc>(owners[1], product_rows_, values_.width());
    std::fill_n(sums_.data, product_rows_ * sums_.stride, Acc(0));
    const Matrix<const Acc> q = queries(owners[2]);
    Acc *wide_k = nullptr, *wide_v = nullptr;
    if (!std::is_same_v<T, Acc> || a_.ranges.pages) {
      wide_k = scratch<Acc>(owners[3], widest, dim_).data;
      wide_v = scratch<Acc>(owners[4], widest, value_dim_).data;
    }
    for (int64_t key = block_.key; key < block_.key_end; key += kKeys) {
      const int64_t keys = std::min(kKeys, block_.key_end - key);
      const auto k = key_operand<T>(a_.k, a_.ranges, key, keys, kv_head_ * dim_, dim_, wide_k);
      const auto v =
          key_operand<T>(a_.v, a_.ranges, key, keys, kv_head_ * value_dim_, value_dim_, wide_v);
      for (int64_t i = 0; i < group_.count(); ++i) add_keys(i, q, k, v, key, keys);
    }
    finish();
  }

 private:
  Matrix<const Acc> queries(Tensor& owner) {
    const int64_t column = kv_head_ * group_.width();
    if (std::is_same_v<T, Acc> && product_rows_ == group_.rows()) {
      return operand<T>(a_.q, block_.row, group_.tokens, column, group_.width(), nullptr);
    }
    const Matrix<Acc> q = scratch<Acc>(owner, product_rows_, group_.width());
    widen<T>(a_.q, block_.row, group_.tokens, column, group_.width(), q.data);
    std::fill(q.data + group_.tokens * q.stride, q.data + product_rows_ * q.stride, Acc(0));
    return {q.data, q.stride};
  }

  void add_keys(int64_t i, Matrix<const Acc> q, Matrix<const Acc> k, Matrix<const Acc> v,
                int64_t key, int64_t keys) {
    const Matrix<Acc> sums = values_.at(sums_, i);
    multiply<Acc>(product_rows_, keys, dim_, group_.at(q, i), false, k, true, scores_, false);
    for (int64_t r = 0; r < group_.rows(); ++r) {
      Acc* s = scores_.data + r * scores_.stride;
      const Columns seen = visible(a_.ranges, group_.token(r), key, keys);
      if (seen.end == 0) {
        std::fill_n(s, keys, Acc(0));
        continue;
      }
      const Acc shrink = exponentiate(s, keys, seen, static_cast<Acc>(a_.scale), state(i, r));
      if (shrink != 1) scale_row(sums.data + r * sums.stride, value_dim_, shrink);
    }
    multiply<Acc>(product_rows_, value_dim_, keys, {scores_.data, scores_.stride}, false, v, false,
                  sums, true);
  }

  void finish() {
    for (int64_t i = 0; i < group_.count(); ++i) {
      const Matrix<Acc> sums = values_.at(sums_, i);
      for (int64_t r = 0; r < group_.rows(); ++r) {
        const int64_t token = group_.token(r);
        const int64_t head = kv_head_ * group_.heads + group_.head(i, r);
        const RowState<Acc> done = state(i, r);
        const bool empty = done.sum == 0;
        const Acc inverse = empty ? Acc(0) : 1 / done.sum;
        const Acc* from = sums.data + r * sums.stride;
        T* to = a_.o.row<T>(token) + head * value_dim_;
        for_each_vector<T>(value_dim_, [&](int64_t c, int64_t n) HWY_ATTR {
          store_up_to(to + c, hn::Mul(load_up_to(from + c, n), set<Acc>(inverse)), n);
        });
        a_.lse.row<Acc>(token)[head] = empty ? -kInfinity<Acc> : done.max + std::log(done.sum);
      }
    }
  }

  RowState<Acc>& state(int64_t i, int64_t r) {
    return states_[static_cast<size_t>(i * group_.rows() + r)];
  }

  const Attention& a_;
  const AttentionTile block_;
  const int64_t kv_head_, dim_, value_dim_;
  const Group group_, values_;  // the same heads, of queries and of values
  const int64_t product_rows_;
  std::vector<RowState<Acc>> states_;
  Matrix<Acc> scores_, sums_;  // sums: as o, one block of columns per head
};

void forward(const Attention& a) {
  const std::vector<AttentionTile> all = query_blocks(a.ranges, kRows);
  std::vector<AttentionTile> steps, blocks;
  for (size_t b = 0; b < all.size(); ++b) {
    (is_decode_step(all, b) ? steps : blocks).push_back(all[b]);
  }
  if (!steps.empty()) decode_attention(a, steps);
  const int64_t kv_heads = a.kv_heads();
  const int64_t pieces = static_cast<int64_t>(blocks.size()) * kv_heads;
  visit_float(a.q.dtype(), [&]<class T>() {
    parallel_for(pieces, 1, [&](int64_t piece, int64_t) {
      // From the end: in the causal case the largest blocks, so that small ones fill the gaps.
      const auto b = static_cast<size_t>((pieces - 1 - piece) / kv_heads);
      ForwardBlock<T>(a, blocks[b], piece % kv_heads).run();
    });
  });
}

}  // namespace
}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(forward);
}  // namespace

void Attention::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }

}  // namespace tephra::kernel
#endif

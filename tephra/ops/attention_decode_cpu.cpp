// SPDX-License-Identifier: Apache-2.0
// A part of a step: the scores of all heads over some keys, their exponentials, and the values so
// weighted, with the maximum and the sum that merging needs. Values are fetched while the keys are
// being read: two streams use the memory better than one.
#include "tephra/ops/attention_decode.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/attention_decode_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/scratch.h"
#include "tephra/ops/attention_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {
namespace {

constexpr int64_t kPartKeys = 64;  // a multiple of every vector's width
constexpr int kBlock = 4;          // heads, keys or vectors of columns in registers at once
constexpr int64_t kLine = 64;      // bytes that the memory gives at a time

// What a part leaves for each head, in this order: weighted values, maximum, sum.
struct PartLayout {
  int64_t heads, value_dim;

  int64_t of_head() const { return value_dim + 2; }
  int64_t size() const { return heads * of_head(); }
};

// kHeads queries (dim apart) by kKeys keys. Every score has an accumulator of its own.
template <class T, int kHeads, int kKeys>
HWY_INLINE void score_block(const T* q, const T* const* keys, int64_t column, int64_t dim,
                            acc_t<T>* scores) {
  Vec<T> sums[kHeads][kKeys];
  for (auto& of_head : sums) {
    for (auto& sum : of_head) sum = set<T>(0);
  }
  for_each_vector<T>(dim, [&](int64_t c, int64_t n) HWY_ATTR {
    Vec<T> query[kHeads];
    for (int h = 0; h < kHeads; ++h) query[h] = load_up_to(q + h * dim + c, n);
    for (int k = 0; k < kKeys; ++k) {
      const auto key = load_up_to(keys[k] + column + c, n);
      for (int h = 0; h < kHeads; ++h) sums[h][k] = hn::MulAdd(query[h], key, sums[h][k]);
    }
  });
  for (int h = 0; h < kHeads; ++h) {
    for (int k = 0; k < kKeys; ++k) scores[h * kPartKeys + k] = sum_of_lanes<T>(sums[h][k]);
  }
}

template <class T, int kKeys>
HWY_INLINE void score_keys(const T* q, const T* const* keys, int64_t column, int64_t dim,
                           int64_t heads, acc_t<T>* scores) {
  int64_t h = 0;
  for (; h + kBlock <= heads; h += kBlock) {
    score_block<T, kBlock, kKeys>(q + h * dim, keys, column, dim, scores + h * kPartKeys);
  }
  for (; h < heads; ++h) {
    score_block<T, 1, kKeys>(q + h * dim, keys, column, dim, scores + h * kPartKeys);
  }
}

// kHeads rows of weights by kVectors vectors of columns (the last one of n elements), over all
// keys.
template <class T, int kHeads, int kVectors>
HWY_INLINE void value_block(const T* const* values, int64_t column, int64_t n, int64_t keys,
                            const acc_t<T>* weights, acc_t<T>* out, int64_t out_stride) {
  Vec<T> sums[kHeads][kVectors];
  for (auto& of_head : sums) {
    for (auto& sum : of_head) sum = set<T>(0);
  }
  const int64_t width = lanes<T>();
  for (int64_t k = 0; k < keys; ++k) {
    for (int v = 0; v < kVectors; ++v) {
      const T* at = values[k] + column + v * width;
      const auto value = v + 1 < kVectors ? load(at) : load_up_to(at, n);
      for (int h = 0; h < kHeads; ++h) {
        sums[h][v] = hn::MulAdd(set<T>(weights[h * kPartKeys + k]), value, sums[h][v]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) {
      store_up_to(out + h * out_stride + v * width, sums[h][v], v + 1 < kVectors ? width : n);
    }
  }
}

template <class T, int kHeads>
void weigh_values(const T* const* values, int64_t column, int64_t dim, int64_t keys,
                  const acc_t<T>* weights, acc_t<T>* out, int64_t out_stride) {
  const int64_t width = lanes<T>();
  int64_t c = 0;
  for (; c + kBlock * width <= dim; c += kBlock * width) {
    value_block<T, kHeads, kBlock>(values, column + c, width, keys, weights, out + c, out_stride);
  }
  for (; c < dim; c += width) {
    value_block<T, kHeads, 1>(values, column + c, std::min(width, dim - c), keys, weights, out + c,
                              out_stride);
  }
}

// Turns scores, whose row ends in -inf up to a whole vector, into exp(scale * score - maximum).
template <class Acc>
HWY_INLINE void exponentiate_part(Acc* scores, int64_t keys, Acc scale, Acc* max, Acc* sum) {
  auto top = set<Acc>(-kInfinity<Acc>);
  for (int64_t c = 0; c < keys; c += lanes<Acc>()) top = hn::Max(top, load(scores + c));
  *max = max_of_lanes<Acc>(top) * scale;
  auto sums = set<Acc>(0);
  for (int64_t c = 0; c < keys; c += lanes<Acc>()) {
    const auto p = exponential<Acc>(hn::MulSub(load(scores + c), set<Acc>(scale), set<Acc>(*max)));
    sums = hn::Add(sums, p);
    store(scores + c, p);
  }
  *sum = sum_of_lanes<Acc>(sums);
}

template <class T>
HWY_INLINE void prefetch_row(const T* row, int64_t width) {
  const auto* bytes = reinterpret_cast<const char*>(row);
  for (int64_t at = 0; at < width * static_cast<int64_t>(sizeof(T)); at += kLine) {
    // Into the second cache: the first can wait for few lines at a time.
    __builtin_prefetch(bytes + at, /*read*/ 0, /*second cache*/ 2);
  }
}

// Keys of one query: where each row of keys and values lies.
template <class T>
struct PartRows {
  int64_t count;
  const T *keys[kPartKeys], *values[kPartKeys];

  PartRows(const Attention& a, int64_t key, int64_t keys_end) : count(keys_end - key) {
    for (int64_t j = 0; j < count; ++j) {
      const int64_t row = stored_row(a.ranges, key + j);
      keys[j] = a.k.row<T>(row);
      values[j] = a.v.row<T>(row);
    }
  }
};

// Scores of all heads, [heads][kPartKeys], while the values are on their way.
template <class T>
void score_part(const Attention& a, const T* q, const PartRows<T>& rows, acc_t<T>* scores) {
  const int64_t dim = a.head_dim, kv_heads = a.kv_heads();
  const int64_t group = a.q.cols() / a.k.cols();  // heads that share a KV head
  for (int64_t j = 0; j < rows.count; j += kBlock) {
    const int64_t count = std::min<int64_t>(kBlock, rows.count - j);
    const int64_t ahead = j + 2 * kBlock;
    for (int64_t i = ahead; i < std::min(ahead + kBlock, rows.count); ++i) {
      prefetch_row(rows.keys[i], a.k.cols());
    }
    for (int64_t i = 0; i < count; ++i) prefetch_row(rows.values[j + i], a.v.cols());
    for (int64_t h = 0; h < kv_heads; ++h) {
      const T* queries = q + h * group * dim;
      acc_t<T>* to = scores + h * group * kPartKeys + j;
      if (count == kBlock) {
        score_keys<T, kBlock>(queries, rows.keys + j, h * dim, dim, group, to);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        score_keys<T, 1>(queries, rows.keys + j + i, h * dim, dim, group, to + i);
      }
    }
  }
}

// Keys [key, key_end) of one query.
template <class T>
void attend_part(const Attention& a, int64_t token, int64_t key, int64_t key_end, acc_t<T>* out) {
  using Acc = acc_t<T>;
  const int64_t value_dim = a.value_dim(), group = a.q.cols() / a.k.cols();
  const PartLayout layout{group * a.kv_heads(), value_dim};
  thread_local cpu::Scratch<Acc> buffer;
  Acc* scores = buffer.get(layout.heads * kPartKeys);
  const PartRows<T> rows(a, key, key_end);
  score_part<T>(a, a.q.row<T>(token), rows, scores);
  for (int64_t h = 0; h < layout.heads; ++h) {
    Acc* row = scores + h * kPartKeys;
    const int64_t whole = ceil_div(rows.count, lanes<Acc>()) * lanes<Acc>();
    std::fill(row + rows.count, row + whole, -kInfinity<Acc>);
    Acc* last = out + h * layout.of_head() + value_dim;
    exponentiate_part(row, rows.count, static_cast<Acc>(a.scale), last, last + 1);
  }
  for (int64_t h = 0; h < layout.heads;) {
    const bool whole_block = group - h % group >= kBlock;
    const int64_t column = h / group * value_dim;
    const Acc* weights = scores + h * kPartKeys;
    Acc* to = out + h * layout.of_head();
    const auto weigh = whole_block ? weigh_values<T, kBlock> : weigh_values<T, 1>;
    weigh(rows.values, column, value_dim, rows.count, weights, to, layout.of_head());
    h += whole_block ? kBlock : 1;
  }
}

// The parts of one query and head, in order.
template <class T>
void merge_parts(const Attention& a, int64_t token, int64_t head, const acc_t<T>* parts,
                 int64_t count) {
  using Acc = acc_t<T>;
  const PartLayout layout{a.q.cols() / a.head_dim, a.value_dim()};
  const auto part = [&](int64_t i) { return parts + i * layout.size() + head * layout.of_head(); };
  Acc max = -kInfinity<Acc>;
  for (int64_t i = 0; i < count; ++i) max = std::max(max, part(i)[layout.value_dim]);
  thread_local cpu::Scratch<Acc> buffer;
  Acc* weights = buffer.get(count);
  Acc sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    weights[i] = std::exp(part(i)[layout.value_dim] - max);
    sum += weights[i] * part(i)[layout.value_dim + 1];
  }
  const Acc inverse = count == 0 ? Acc(0) : 1 / sum;
  T* to = a.o.row<T>(token) + head * layout.value_dim;
  for_each_vector<T>(layout.value_dim, [&](int64_t c, int64_t n) HWY_ATTR {
    auto value = set<T>(0);
    for (int64_t i = 0; i < count; ++i) {
      value = hn::MulAdd(set<T>(weights[i]), load_up_to(part(i) + c, n), value);
    }
    store_up_to(to + c, hn::Mul(value, set<T>(inverse)), n);
  });
  a.lse.row<Acc>(token)[head] = count == 0 ? -kInfinity<Acc> : max + std::log(sum);
}

void decode_steps(const Attention& a, std::span<const AttentionTile> steps) {
  std::vector<int64_t> first{0};  // part of each step
  for (const AttentionTile& step : steps) {
    first.push_back(first.back() + ceil_div(step.key_end - step.key, kPartKeys));
  }
  const PartLayout layout{a.q.cols() / a.head_dim, a.value_dim()};
  visit_float(a.q.dtype(), [&]<class T>() {
    using Acc = acc_t<T>;
    const Tensor parts({first.back(), layout.size()}, dtype_of<Acc>(), kCpu, Purpose::workspace);
    // The last part is short. Where threads cannot have as many each, the caller has one more and
    // begins first: it takes that one.
    const int64_t shift = first.back() % num_threads() == 0 ? 0 : first.back() - 1;
    parallel_for(first.back(), 1, [&](int64_t piece, int64_t) {
      const int64_t at = (piece + shift) % first.back();
      const auto next = std::upper_bound(first.begin(), first.end(), at);
      const auto i = static_cast<size_t>(next - first.begin() - 1);
      const int64_t key = steps[i].key + (at - first[i]) * kPartKeys;
      attend_part<T>(a, steps[i].row, key, std::min(key + kPartKeys, steps[i].key_end),
                     parts.row<Acc>(at));
    });
    const auto merges = static_cast<int64_t>(steps.size()) * layout.heads;
    parallel_for(merges, row_grain(layout.value_dim), [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m) {
        const auto i = static_cast<size_t>(m / layout.heads);
        merge_parts<T>(a, steps[i].row, m % layout.heads,
                       parts.data<Acc>() + first[i] * layout.size(), first[i + 1] - first[i]);
      }
    });
  });
}

}  // namespace
}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(decode_steps);
}  // namespace

void decode_attention(const Attention& a, std::span<const AttentionTile> steps) {
  HWY_DYNAMIC_DISPATCH(decode_steps)(a, steps);
}

}  // namespace tephra::kernel
#endif

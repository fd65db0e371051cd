// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/merge_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/merge_norm_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/row_sums.h"
#include "tephra/device/cpu/simd-inl.h"
#include "tephra/ops/merge_norm_steps.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: vectors of this target

// Rows that share one visit to what is the same for all of them.
constexpr int kForwardRows = 4;
constexpr int kBackwardRows = 2;
// That is vectors and sums, a vector of each in turn. Tensors tend to start on page boundaries,
// where the same columns of all of them would compete for one cache set.
constexpr int64_t kVectors = 5;  // hidden scale and bias, residual scale and bias, norm weight
constexpr int64_t kSums = 4;  // over rows: of g, g * hidden, g * residual, dnormed * merged * rstd

// Where they lie, for so few rows that packing them would cost more than it saves.
template <class T>
struct PlainVectors {
  const T *hidden_scale, *hidden_bias, *residual_scale, *residual_bias, *weight;

  PlainVectors(const ResidualScale& s, const Tensor& norm)
      : hidden_scale(s.hidden_scale.data<T>()),
        hidden_bias(s.hidden_bias.data<T>()),
        residual_scale(s.residual_scale ? s.residual_scale.data<T>() : nullptr),
        residual_bias(s.residual_bias ? s.residual_bias.data<T>() : nullptr),
        weight(norm.data<T>()) {}
};

template <class T>
struct VectorsAt {
  Vec<T> hidden_scale, hidden_bias, residual_scale, residual_bias, weight;

  HWY_INLINE VectorsAt(const acc_t<T>* packed, int64_t c, int64_t n)
      : hidden_scale(load_up_to(packed + kVectors * c, n)),
        hidden_bias(load_up_to(packed + kVectors * c + n, n)),
        residual_scale(load_up_to(packed + kVectors * c + 2 * n, n)),
        residual_bias(load_up_to(packed + kVectors * c + 3 * n, n)),
        weight(load_up_to(packed + kVectors * c + 4 * n, n)) {}

  HWY_INLINE VectorsAt(const PlainVectors<T>& from, int64_t c, int64_t n)
      : hidden_scale(load_up_to(from.hidden_scale + c, n)),
        hidden_bias(load_up_to(from.hidden_bias + c, n)),
        residual_scale(from.residual_scale ? load_up_to(from.residual_scale + c, n) : set<T>(0)),
        residual_bias(from.residual_bias ? load_up_to(from.residual_bias + c, n) : set<T>(0)),
        weight(load_up_to(from.weight + c, n)) {}
};

template <class T>
Tensor pack_vectors(const ResidualScale& s, const Tensor& weight) {
  using Acc = acc_t<T>;
  const Tensor packed({kVectors * weight.numel()}, dtype_of<Acc>(), kCpu, Purpose::workspace);
  int64_t slot = 0;
  for (const Tensor& v :
       {s.hidden_scale, s.hidden_bias, s.residual_scale, s.residual_bias, weight}) {
    for_each_vector<T>(weight.numel(), [&](int64_t c, int64_t n) HWY_ATTR {
      const auto value = v ? load_up_to(v.template data<T>() + c, n) : set<T>(0);
      store_up_to(packed.data<Acc>() + kVectors * c + slot * n, value, n);
    });
    ++slot;
  }
  return packed;
}

// One row at some columns: both sides with their biases, and their scaled sum.
template <class T>
struct MergePoint {
  Vec<T> hidden, residual, merged;
};

// `stream` is null where there is none.
template <class T>
HWY_INLINE MergePoint<T> merge_at(const VectorsAt<T>& v, const T* x, const acc_t<T>* stream,
                                  int64_t c, int64_t n) {
  const auto hidden = hn::Add(load_up_to(x + c, n), v.hidden_bias);
  const auto scaled = hn::Mul(hidden, v.hidden_scale);
  if (!stream) return {hidden, set<T>(0), scaled};
  const auto residual = hn::Add(load_up_to(stream + c, n), v.residual_bias);
  return {hidden, residual, hn::MulAdd(residual, v.residual_scale, scaled)};
}

// Row r of a tensor, null when it is undefined: absent, or not wanted.
template <class T>
HWY_INLINE T* row_or_null(const Tensor& t, int64_t r) {
  return t ? t.row<T>(r) : nullptr;
}

// `vectors` are packed ones or PlainVectors.
template <class T, int kRows, class Vectors>
void forward_rows(const MergeNorm& k, const Vectors& vectors, int64_t first) {
  using Acc = acc_t<T>;
  const int64_t width = k.x.cols();
  const T* x[kRows];
  const Acc* stream[kRows];
  Acc* merged[kRows];
  T* normed[kRows];
  Vec<T> squares[kRows], rstd[kRows];
  for (int i = 0; i < kRows; ++i) {
    x[i] = k.x.row<T>(first + i);
    stream[i] = row_or_null<Acc>(k.stream, first + i);
    merged[i] = k.merged.row<Acc>(first + i);
    normed[i] = k.normed.row<T>(first + i);
    squares[i] = set<T>(0);
  }
  for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    const VectorsAt<T> v(vectors, c, n);
    for (int i = 0; i < kRows; ++i) {
      const auto m = merge_at(v, x[i], stream[i], c, n).merged;
      squares[i] = hn::MulAdd(m, m, squares[i]);
      store_up_to(merged[i] + c, m, n);
    }
  });
  for (int i = 0; i < kRows; ++i) {
    const Acc mean = sum_of_lanes<T>(squares[i]) / static_cast<Acc>(width);
    const Acc r = Acc(1) / std::sqrt(mean + static_cast<Acc>(k.eps));
    k.rstd.data<Acc>()[first + i] = r;
    rstd[i] = set<T>(r);
  }
  for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    const VectorsAt<T> v(vectors, c, n);
    for (int i = 0; i < kRows; ++i) {
      const auto m = hn::Mul(load_up_to(merged[i] + c, n), rstd[i]);
      store_up_to(normed[i] + c, hn::Mul(m, v.weight), n);
    }
  });
}

void forward(const MergeNorm& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    if (k.x.rows() < kForwardRows) {
      const PlainVectors<T> plain(k.scale, k.weight);
      for (int64_t r = 0; r < k.x.rows(); ++r) forward_rows<T, 1>(k, plain, r);
      return;
    }
    const Tensor vectors = pack_vectors<T>(k.scale, k.weight);
    const auto* packed = vectors.data<acc_t<T>>();
    parallel_for(k.x.rows(), row_grain(k.x.cols()), [&](int64_t begin, int64_t end) HWY_ATTR {
      int64_t r = begin;
      for (; r + kForwardRows <= end; r += kForwardRows) {
        forward_rows<T, kForwardRows>(k, packed, r);
      }
      for (; r < end; ++r) forward_rows<T, 1>(k, packed, r);
    });
  });
}

// One row; null is absent or not wanted. With m = mean(dnormed * w * merged) and s = rstd, the
// gradient of the merged stream is g = dmerged + s * (w * dnormed - merged * s^2 * m).
template <class T>
struct GradRow {
  using Acc = acc_t<T>;
  const T *x, *dnormed;
  const Acc *stream, *dmerged;
  T* dx;
  Acc* dstream;
  Acc rstd;

  GradRow() = default;
  GradRow(const MergeNormGrad& k, int64_t r)
      : x(k.x.row<T>(r)),
        dnormed(row_or_null<T>(k.dnormed, r)),
        stream(row_or_null<Acc>(k.stream, r)),
        dmerged(row_or_null<Acc>(k.dmerged, r)),
        dx(row_or_null<T>(k.dx.grad, r)),
        dstream(row_or_null<Acc>(k.dstream.grad, r)),
        rstd(k.rstd.data<Acc>()[r]) {}

  // What the first pass over the row reads: rows are longer than the hardware looks ahead.
  HWY_INLINE void prefetch(int64_t c) const {
    __builtin_prefetch(x + c);
    if (stream) __builtin_prefetch(stream + c);
    if (dnormed) __builtin_prefetch(dnormed + c);
  }
};

// s^2 * m of one row. Meanwhile what only the other pass over the row needs comes in.
template <class T, bool kPastCache>
HWY_INLINE Vec<T> shrink_of(const acc_t<T>* packed, const GradRow<T>& row, int64_t width) {
  if (!row.dnormed) return set<T>(0);
  auto dots = set<T>(0);
  for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    const VectorsAt<T> v(packed, c, n);
    if (row.dmerged) __builtin_prefetch(row.dmerged + c);
    if (!kPastCache && row.dx) __builtin_prefetch(row.dx + c, 1);
    if (!kPastCache && row.dstream) __builtin_prefetch(row.dstream + c, 1);
    const auto t = hn::Mul(load_up_to(row.dnormed + c, n), v.weight);
    dots = hn::MulAdd(t, merge_at(v, row.x, row.stream, c, n).merged, dots);
  });
  const acc_t<T> mean = sum_of_lanes<T>(dots) / static_cast<acc_t<T>>(width);
  return set<T>(row.rstd * row.rstd * mean);
}

// A gradient of a row, unless it is not wanted.
template <bool kPastCache, class T>
HWY_INLINE void write_gradient(T* row, int64_t c, Vec<T> v, int64_t n, bool accumulate) {
  if (!row) return;
  if (kPastCache) {
    stream_up_to(row + c, v, n);
  } else {
    write_up_to(row + c, v, n, accumulate);
  }
}

// Writes dx and dstream of some rows; adds to `sums` unless null.
template <class T, int kRows, bool kPastCache>
void backward_rows(const MergeNormGrad& k, const acc_t<T>* packed, int64_t first, acc_t<T>* sums) {
  const int64_t width = k.x.cols();
  const bool add_dx = k.dx.accumulate, add_dstream = k.dstream.accumulate;
  GradRow<T> rows[kRows], next[kRows];
  Vec<T> shrink[kRows], rstd[kRows];
  for (int i = 0; i < kRows; ++i) {
    rows[i] = GradRow<T>(k, first + i);
    next[i] = GradRow<T>(k, std::min(first + kRows + i, k.x.rows() - 1));
    shrink[i] = shrink_of<T, kPastCache>(packed, rows[i], width);
    rstd[i] = set<T>(rows[i].rstd);
  }
  for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    const VectorsAt<T> v(packed, c, n);
    auto g_sum = set<T>(0), hidden_sum = g_sum, residual_sum = g_sum, weight_sum = g_sum;
    for (int i = 0; i < kRows; ++i) {
      const GradRow<T>& row = rows[i];
      next[i].prefetch(c);
      const MergePoint<T> at = merge_at(v, row.x, row.stream, c, n);
      auto g = row.dmerged ? load_up_to(row.dmerged + c, n) : set<T>(0);
      if (row.dnormed) {
        const auto d = load_up_to(row.dnormed + c, n);
        g = hn::MulAdd(hn::NegMulAdd(at.merged, shrink[i], hn::Mul(d, v.weight)), rstd[i], g);
        weight_sum = hn::MulAdd(hn::Mul(at.merged, rstd[i]), d, weight_sum);
      }
      write_gradient<kPastCache>(row.dx, c, hn::Mul(g, v.hidden_scale), n, add_dx);
      write_gradient<kPastCache>(row.dstream, c, hn::Mul(g, v.residual_scale), n, add_dstream);
      g_sum = hn::Add(g_sum, g);
      hidden_sum = hn::MulAdd(g, at.hidden, hidden_sum);
      residual_sum = hn::MulAdd(g, at.residual, residual_sum);
    }
    if (!sums) return;
    write_up_to(sums + kSums * c, g_sum, n, true);
    write_up_to(sums + kSums * c + n, hidden_sum, n, true);
    write_up_to(sums + kSums * c + 2 * n, residual_sum, n, true);
    write_up_to(sums + kSums * c + 3 * n, weight_sum, n, true);
  });
}

template <class T, bool kPastCache>
void backward_block(const MergeNormGrad& k, const acc_t<T>* packed, int64_t begin, int64_t end,
                    acc_t<T>* sums) {
  int64_t r = begin;
  for (; r + kBackwardRows <= end; r += kBackwardRows) {
    backward_rows<T, kBackwardRows, kPastCache>(k, packed, r, sums);
  }
  for (; r < end; ++r) backward_rows<T, 1, kPastCache>(k, packed, r, sums);
}

template <class T>
void backward_block(const MergeNormGrad& k, const acc_t<T>* packed, int64_t begin, int64_t end,
                    acc_t<T>* sums) {
  const bool adds = k.dx.accumulate || k.dstream.accumulate;
  if (!adds && k.x.bytes() > kBeyondCacheBytes) {
    backward_block<T, true>(k, packed, begin, end, sums);
    hwy::FlushStream();
  } else {
    backward_block<T, false>(k, packed, begin, end, sums);
  }
}

// target = factor * the interleaved sum number `slot`, or adds it; no factor is 1.
template <class T>
void write_vector(const GradTarget& target, const acc_t<T>* sums, int64_t slot,
                  const Tensor& factor) {
  if (!target.grad) return;
  acc_t<T>* out = target.grad.data<acc_t<T>>();
  for_each_vector<T>(target.grad.numel(), [&](int64_t c, int64_t n) HWY_ATTR {
    auto v = load_up_to(sums + kSums * c + slot * n, n);
    if (factor) v = hn::Mul(v, load_up_to(factor.data<T>() + c, n));
    write_up_to(out + c, v, n, target.accumulate);
  });
}

void backward(const MergeNormGrad& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t rows = k.x.rows(), width = k.x.cols();
    const Tensor vectors = pack_vectors<T>(k.scale, k.weight);
    const Acc* packed = vectors.data<Acc>();
    if (!k.wants_vectors()) {
      parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end) HWY_ATTR {
        backward_block<T>(k, packed, begin, end, nullptr);
      });
      return;
    }
    const Tensor total({kSums * width}, dtype_of<Acc>(), kCpu, Purpose::workspace);
    const Acc* sum = total.data<Acc>();
    cpu::sum_rows<Acc>(rows, kSums * width, total.data<Acc>(), false,
                       [&](int64_t begin, int64_t end, Acc* sums)
                           HWY_ATTR { backward_block<T>(k, packed, begin, end, sums); });
    write_vector<T>(k.dhidden_bias, sum, 0, k.scale.hidden_scale);
    write_vector<T>(k.dhidden_scale, sum, 1, {});
    write_vector<T>(k.dresidual_bias, sum, 0, k.scale.residual_scale);
    write_vector<T>(k.dresidual_scale, sum, 2, {});
    write_vector<T>(k.dweight, sum, 3, {});
  });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);
}  // namespace

void MergeNorm::on_cpu() const {
  if (routes) return merge_norm_steps(*this, [](const auto& kernel) { kernel.on_cpu(); });
  HWY_DYNAMIC_DISPATCH(forward)(*this);
}

void MergeNormGrad::on_cpu() const {
  if (routes) return merge_norm_grad_steps(*this, [](const auto& kernel) { kernel.on_cpu(); });
  HWY_DYNAMIC_DISPATCH(backward)(*this);
}

}  // namespace tephra::kernel
#endif

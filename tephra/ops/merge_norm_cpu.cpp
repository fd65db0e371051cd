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

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

// The four vectors of a merge; the residual ones are null where there is no stream.
template <class T>
struct MergeScale {
  const T *hidden_scale, *hidden_bias, *residual_scale = nullptr, *residual_bias = nullptr;

  explicit MergeScale(const ResidualScale& s)
      : hidden_scale(s.hidden_scale.data<T>()), hidden_bias(s.hidden_bias.data<T>()) {
    if (s.residual_scale) residual_scale = s.residual_scale.data<T>();
    if (s.residual_bias) residual_bias = s.residual_bias.data<T>();
  }
};

// A merge at some columns: both sides with their biases, and their scaled sum.
template <class T>
struct MergePoint {
  Vec<T> hidden, residual, merged;
};

template <class T>
HWY_INLINE MergePoint<T> merge_at(const MergeScale<T>& s, const T* x, const acc_t<T>* stream,
                                  int64_t c, int64_t n) {
  const auto hidden = hn::Add(load_up_to(x + c, n), load_up_to(s.hidden_bias + c, n));
  const auto scaled = hn::Mul(hidden, load_up_to(s.hidden_scale + c, n));
  if (!stream) return {hidden, set<T>(0), scaled};
  const auto residual = hn::Add(load_up_to(stream + c, n), load_up_to(s.residual_bias + c, n));
  return {hidden, residual, hn::MulAdd(residual, load_up_to(s.residual_scale + c, n), scaled)};
}

template <class T>
HWY_INLINE const acc_t<T>* stream_row(const Tensor& stream, int64_t r) {
  return stream ? stream.row<acc_t<T>>(r) : nullptr;
}

template <class T>
void forward_rows(const MergeNorm& k, int64_t begin, int64_t end) {
  using Acc = acc_t<T>;
  const int64_t width = k.x.cols();
  const MergeScale<T> scale(k.scale);
  const T* w = k.weight.data<T>();
  for (int64_t r = begin; r < end; ++r) {
    const T* x = k.x.row<T>(r);
    const Acc* stream = stream_row<T>(k.stream, r);
    Acc* merged = k.merged.row<Acc>(r);
    T* normed = k.normed.row<T>(r);
    Vec<T> squares = set<T>(0);
    for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto v = merge_at(scale, x, stream, c, n).merged;
      squares = hn::MulAdd(v, v, squares);
      store_up_to(merged + c, v, n);
    });
    const Acc mean = sum_of_lanes<T>(squares) / static_cast<Acc>(width);
    const Acc rstd = Acc(1) / std::sqrt(mean + static_cast<Acc>(k.eps));
    k.rstd.data<Acc>()[r] = rstd;
    for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto v = hn::Mul(load_up_to(merged + c, n), set<T>(rstd));
      store_up_to(normed + c, hn::Mul(v, load_up_to(w + c, n)), n);
    });
  }
}

void forward(const MergeNorm& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    parallel_for(k.x.rows(), row_grain(k.x.cols()),
                 [&](int64_t begin, int64_t end) HWY_ATTR { forward_rows<T>(k, begin, end); });
  });
}

constexpr int64_t kGroup = 4;  // rows that share one visit to the column sums
constexpr int64_t kSums = 4;   // over rows: of g, g * hidden, g * residual, dnormed * merged * rstd

// The rows of one group; a null pointer is a tensor that is absent or not wanted.
template <class T>
struct GradRows {
  using Acc = acc_t<T>;
  int64_t count;
  const T *x[kGroup], *dnormed[kGroup];
  const Acc *stream[kGroup], *dmerged[kGroup];
  T* dx[kGroup];
  Acc* dstream[kGroup];
  Acc rstd[kGroup], shrink[kGroup];

  GradRows(const MergeNormGrad& k, int64_t begin, int64_t end) : count(end - begin) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t r = begin + i;
      x[i] = k.x.row<T>(r);
      dnormed[i] = k.dnormed ? k.dnormed.row<T>(r) : nullptr;
      stream[i] = stream_row<T>(k.stream, r);
      dmerged[i] = stream_row<T>(k.dmerged, r);
      dx[i] = k.dx.grad ? k.dx.grad.row<T>(r) : nullptr;
      dstream[i] = k.dstream.grad ? k.dstream.grad.row<Acc>(r) : nullptr;
      rstd[i] = k.rstd.data<Acc>()[r];
    }
  }
};

// With m = mean(dnormed * w * merged) and s = rstd, the gradient of the merged stream is
// g = dmerged + s * (w * dnormed - merged * s^2 * m); this is s^2 * m of one row.
template <class T>
HWY_INLINE acc_t<T> shrink_of(const MergeScale<T>& scale, const T* w, const GradRows<T>& rows,
                              int64_t i, int64_t width) {
  if (!rows.dnormed[i]) return 0;
  Vec<T> dots = set<T>(0);
  for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    const auto t = hn::Mul(load_up_to(rows.dnormed[i] + c, n), load_up_to(w + c, n));
    dots = hn::MulAdd(t, merge_at(scale, rows.x[i], rows.stream[i], c, n).merged, dots);
  });
  const acc_t<T> s = rows.rstd[i];
  return s * s * (sum_of_lanes<T>(dots) / static_cast<acc_t<T>>(width));
}

// Writes dx and dstream of rows [begin, end); adds to `sums`, kSums rows of width, unless null.
template <class T>
void backward_rows(const MergeNormGrad& k, int64_t begin, int64_t end, acc_t<T>* sums) {
  const int64_t width = k.x.cols();
  const MergeScale<T> scale(k.scale);
  const T* w = k.weight.data<T>();
  for (int64_t r = begin; r < end; r += kGroup) {
    GradRows<T> rows(k, r, std::min(end, r + kGroup));
    for (int64_t i = 0; i < rows.count; ++i) {
      rows.shrink[i] = shrink_of(scale, w, rows, i, width);
    }
    for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
      auto g_sum = set<T>(0), hidden_sum = g_sum, residual_sum = g_sum, weight_sum = g_sum;
      for (int64_t i = 0; i < rows.count; ++i) {
        const auto at = merge_at(scale, rows.x[i], rows.stream[i], c, n);
        auto g = rows.dmerged[i] ? load_up_to(rows.dmerged[i] + c, n) : set<T>(0);
        if (rows.dnormed[i]) {
          const auto dnormed = load_up_to(rows.dnormed[i] + c, n);
          const auto s = set<T>(rows.rstd[i]);
          const auto t = hn::Mul(dnormed, load_up_to(w + c, n));
          g = hn::MulAdd(hn::NegMulAdd(at.merged, set<T>(rows.shrink[i]), t), s, g);
          weight_sum = hn::MulAdd(hn::Mul(at.merged, s), dnormed, weight_sum);
        }
        if (rows.dx[i]) {
          const auto dx = hn::Mul(g, load_up_to(scale.hidden_scale + c, n));
          write_up_to(rows.dx[i] + c, dx, n, k.dx.accumulate);
        }
        if (rows.dstream[i]) {
          const auto dstream = hn::Mul(g, load_up_to(scale.residual_scale + c, n));
          write_up_to(rows.dstream[i] + c, dstream, n, k.dstream.accumulate);
        }
        g_sum = hn::Add(g_sum, g);
        hidden_sum = hn::MulAdd(g, at.hidden, hidden_sum);
        residual_sum = hn::MulAdd(g, at.residual, residual_sum);
      }
      if (!sums) return;
      write_up_to(sums + c, g_sum, n, true);
      write_up_to(sums + width + c, hidden_sum, n, true);
      write_up_to(sums + 2 * width + c, residual_sum, n, true);
      write_up_to(sums + 3 * width + c, weight_sum, n, true);
    });
  }
}

// target = factor * sum, or adds it; no factor is 1.
template <class T>
void write_vector(const GradTarget& target, const acc_t<T>* sum, const Tensor& factor) {
  if (!target.grad) return;
  acc_t<T>* out = target.grad.data<acc_t<T>>();
  for_each_vector<T>(target.grad.numel(), [&](int64_t c, int64_t n) HWY_ATTR {
    auto v = load_up_to(sum + c, n);
    if (factor) v = hn::Mul(v, load_up_to(factor.data<T>() + c, n));
    write_up_to(out + c, v, n, target.accumulate);
  });
}

void backward(const MergeNormGrad& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t rows = k.x.rows(), width = k.x.cols();
    if (!k.wants_vectors()) {
      parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end) HWY_ATTR {
        backward_rows<T>(k, begin, end, nullptr);
      });
      return;
    }
    const Tensor total({kSums, width}, dtype_of<Acc>(), kCpu, Purpose::workspace);
    cpu::sum_rows<Acc>(rows, kSums * width, total.data<Acc>(), false,
                       [&](int64_t begin, int64_t end, Acc* sums)
                           HWY_ATTR { backward_rows<T>(k, begin, end, sums); });
    write_vector<T>(k.dhidden_bias, total.row<Acc>(0), k.scale.hidden_scale);
    write_vector<T>(k.dhidden_scale, total.row<Acc>(1), {});
    write_vector<T>(k.dresidual_bias, total.row<Acc>(0), k.scale.residual_scale);
    write_vector<T>(k.dresidual_scale, total.row<Acc>(2), {});
    write_vector<T>(k.dweight, total.row<Acc>(3), {});
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

void MergeNorm::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void MergeNormGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif

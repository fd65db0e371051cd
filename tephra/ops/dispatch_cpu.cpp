// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/dispatch_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

constexpr int64_t kRows = 32;  // per piece of work

// A token's row lies anywhere, where the hardware does not look ahead: it is asked for some rows
// before its turn.
constexpr int64_t kAhead = 2;

template <class T>
HWY_INLINE void prefetch_row(const Tensor& t, int64_t row) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const T* p = t.row<T>(row);
  for (int64_t c = 0; c < t.cols(); c += kLine) __builtin_prefetch(p + c);
}

// Calls body(i, token, skipped) for every place i of the plan; each token comes once, so pieces
// never write the same row. `by_token` is the tensor whose rows are tokens in their own order.
template <class T, class F>
void for_each_place(const Tensor& order, const Tensor& offsets, const Tensor& by_token, F&& body) {
  const int32_t* token = order.data<int32_t>();
  const int64_t end_of_experts = offsets.data<int32_t>()[offsets.numel() - 1];
  parallel_for(order.numel(), kRows, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end) prefetch_row<T>(by_token, token[i + kAhead]);
      body(i, int64_t{token[i]}, i >= end_of_experts);
    }
  });
}

// out = scale * in; in == nullptr stands for zeros.
template <class T>
HWY_INLINE void write_scaled(T* out, const T* in, acc_t<T> scale, int64_t width, bool accumulate) {
  if (in == nullptr) {
    if (!accumulate)
      std::memset(static_cast<void*>(out), 0, sizeof(T) * static_cast<size_t>(width));
    return;
  }
  for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    write_up_to(out + c, hn::Mul(load_up_to(in + c, n), set<T>(scale)), n, accumulate);
  });
}

void gather(const GatherRows& k) {
  visit_float(k.from.dtype(), [&]<class T>() HWY_ATTR {
    const size_t bytes = static_cast<size_t>(k.from.cols()) * sizeof(T);
    for_each_place<T>(k.order, k.offsets, k.from,
                      [&](int64_t i, int64_t token, bool skipped) HWY_ATTR {
                        void* to = k.to.row<T>(i);
                        if (skipped) {
                          std::memset(to, 0, bytes);
                        } else {
                          std::memcpy(to, k.from.row<T>(token), bytes);
                        }
                      });
  });
}

void scatter(const ScatterRows& k) {
  visit_float(k.from.dtype(), [&]<class T>() HWY_ATTR {
    for_each_place<T>(k.order, k.offsets, k.to,
                      [&](int64_t i, int64_t token, bool skipped) HWY_ATTR {
                        write_scaled<T>(k.to.row<T>(token), skipped ? nullptr : k.from.row<T>(i), 1,
                                        k.from.cols(), k.accumulate);
                      });
  });
}

void combine(const CombineRows& k) {
  visit_float(k.y.dtype(), [&]<class T>() HWY_ATTR {
    for_each_place<T>(k.order, k.offsets, k.out,
                      [&](int64_t i, int64_t token, bool skipped) HWY_ATTR {
                        const T* in = k.y.row<T>(i);
                        if (skipped) in = k.skip_input ? k.skip_input.row<T>(token) : nullptr;
                        write_scaled<T>(k.out.row<T>(token), in, k.weight.data<acc_t<T>>()[token],
                                        k.y.cols(), false);
                      });
  });
}

template <class T>
HWY_INLINE acc_t<T> dot(const T* a, const T* b, int64_t width) {
  Vec<T> sum = set<T>(0);
  for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    sum = hn::MulAdd(load_up_to(a + c, n), load_up_to(b + c, n), sum);
  });
  return sum_of_lanes<T>(sum);
}

void combine_backward(const CombineRowsGrad& k) {
  visit_float(k.y.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t width = k.y.cols();
    for_each_place<T>(k.order, k.offsets, k.dout,
                      [&](int64_t i, int64_t token, bool skipped) HWY_ATTR {
                        const T* dout = k.dout.row<T>(token);
                        const Acc weight = k.weight.data<Acc>()[token];
                        if (k.dy) {
                          write_scaled<T>(k.dy.row<T>(i), skipped ? nullptr : dout, weight, width,
                                          k.accumulate_dy);
                        }
                        if (k.dskip) {
                          write_scaled<T>(k.dskip.row<T>(token), skipped ? dout : nullptr, weight,
                                          width, k.accumulate_dskip);
                        }
                        if (k.dweight) {
                          const T* in = k.y.row<T>(i);
                          if (skipped) in = k.skip_input ? k.skip_input.row<T>(token) : nullptr;
                          Acc& out = k.dweight.data<Acc>()[token];
                          const Acc sum = in != nullptr ? dot(in, dout, width) : Acc(0);
                          out = k.accumulate_dweight ? out + sum : sum;
                        }
                      });
  });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(gather);
HWY_EXPORT(scatter);
HWY_EXPORT(combine);
HWY_EXPORT(combine_backward);
}  // namespace

// Counts, adds up, places: a stable sort in one pass over the tokens each.
void PlanDispatch::on_cpu() const {
  const int64_t tokens = expert.numel(), experts = offsets.numel() - 1;
  const int32_t* of = expert.data<int32_t>();
  std::vector<int32_t> next(static_cast<size_t>(experts) + 2, 0);
  const auto slot = [&](int64_t t) {
    return static_cast<size_t>(std::min<int64_t>(of[t], experts));
  };
  for (int64_t t = 0; t < tokens; ++t) {
    require(of[t] >= 0, "plan_dispatch: token {} has expert {}; skipped tokens have {} or more", t,
            of[t], experts);
    ++next[slot(t) + 1];
  }
  for (size_t e = 1; e < next.size(); ++e) next[e] += next[e - 1];
  std::copy_n(next.begin(), experts + 1, offsets.data<int32_t>());
  for (int64_t t = 0; t < tokens; ++t) {
    const int32_t at = next[slot(t)]++;
    order.data<int32_t>()[at] = static_cast<int32_t>(t);
    place.data<int32_t>()[t] = at;
  }
}

void GatherRows::on_cpu() const { HWY_DYNAMIC_DISPATCH(gather)(*this); }
void ScatterRows::on_cpu() const { HWY_DYNAMIC_DISPATCH(scatter)(*this); }
void CombineRows::on_cpu() const { HWY_DYNAMIC_DISPATCH(combine)(*this); }
void CombineRowsGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(combine_backward)(*this); }

}  // namespace tephra::kernel
#endif

// SPDX-License-Identifier: Apache-2.0
// Everything here is one pattern on the line of a segment's positions (segment_rows.h): an output
// row is a weighted sum of a window of K rows. The outputs are at [-lead_rows, length); the
// gradient of the input is the same sum over output gradients with the taps reversed.
#include "tephra/ops/depthwise_conv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/depthwise_conv_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/row_sums.h"
#include "tephra/device/cpu/scratch.h"
#include "tephra/device/cpu/simd-inl.h"
#include "tephra/ops/segment_rows.h"
#include "tephra/ops/visit_taps.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

constexpr int64_t kRows = 64;  // tokens per piece of work
constexpr int kStep = 4;       // tokens at once: as many streams of memory, one load of the taps

template <class T>
using Windows = std::vector<const T*>;  // K - 1 + rows pointers; row i reads K of them from i

// [C, 1, K] as stored to [K, C] in the acc dtype, in reverse order for the gradient.
template <class T>
std::span<const acc_t<T>> taps_of(const Tensor& weight, bool reverse) {
  thread_local cpu::Scratch<acc_t<T>> buffer;
  const int64_t width = weight.dim(0), taps = weight.dim(2);
  const T* w = weight.data<T>();
  acc_t<T>* out = buffer.get(taps * width);
  const auto row = [&](int64_t k) { return out + (reverse ? taps - 1 - k : k) * width; };
  int64_t c = 0;
  if constexpr (std::is_same_v<T, float>) {
    for (; taps == 2 && c + lanes<T>() <= width; c += lanes<T>()) {
      Vec<T> first, second;
      hn::LoadInterleaved2(Tag<T>(), w + 2 * c, first, second);
      store(row(0) + c, first);
      store(row(1) + c, second);
    }
  }
  for (; c < width; ++c) {
    for (int64_t k = 0; k < taps; ++k) row(k)[c] = acc_t<T>(w[c * taps + k]);
  }
  return {out, static_cast<size_t>(taps * width)};
}

// In the acc dtype: as it lies, where that is its own.
template <class T>
std::span<const acc_t<T>> widened(const Tensor& bias) {
  const auto size = static_cast<size_t>(bias.numel());
  if constexpr (std::is_same_v<T, acc_t<T>>) {
    return {bias.data<T>(), size};
  } else {
    thread_local cpu::Scratch<acc_t<T>> buffer;
    acc_t<T>* out = buffer.get(bias.numel());
    std::copy_n(bias.data<T>(), size, out);
    return {out, size};
  }
}

template <class T>
void point_at(const SegmentRows<T>& line, int64_t segment, int64_t position, Windows<T>& window) {
  for (size_t i = 0; i < window.size(); ++i) {
    window[i] = line.at(segment, position + static_cast<int64_t>(i));
  }
}

// Forces a loop body into its loop; the compiler declines when there are two calls of it.
#define TEPHRA_BODY HWY_ATTR __attribute__((always_inline))

// The pointers of a window as locals: a store through a vector type may alias them elsewhere.
template <class T, int K, int kOutputs>
struct Local {
  const T* row[K > 0 ? K - 1 + kOutputs : 1];
  const T* const* all;

  explicit Local(const T* const* window) : all(window) {
    for (int i = 0; K > 0 && i < K - 1 + kOutputs; ++i) row[i] = window[i];
  }
  HWY_INLINE const T* operator[](int64_t i) const { return K > 0 ? row[i] : all[i]; }
};

// out = start + sum_k weight[k] * window[k], over one row.
template <class T, int K>
void convolve_row(int64_t width, int64_t num_taps, const acc_t<T>* start, const acc_t<T>* weight,
                  const T* const* window, T* out, bool accumulate) {
  const int64_t taps = K > 0 ? K : num_taps;
  const Local<T, K, 1> in(window);
  for_each_vector<T>(width, [&](int64_t c, int64_t n) TEPHRA_BODY {
    auto sum = load_up_to(start + c, n);
    for (int64_t k = 0; k < taps; ++k) {
      const auto w = load_up_to(weight + k * width + c, n);
      sum = hn::MulAdd(w, load_up_to(in[k] + c, n), sum);
    }
    write_up_to(out + c, sum, n, accumulate);
  });
}

// The same for kStep rows, `stride` apart in memory.
template <class T, int K>
void convolve_step(int64_t width, int64_t num_taps, const acc_t<T>* start, const acc_t<T>* weight,
                   const T* const* window, T* out, int64_t stride, bool accumulate) {
  static_assert(kStep == 4);
  const int64_t taps = K > 0 ? K : num_taps;
  const Local<T, K, kStep> in(window);
  for_each_vector<T>(width, [&](int64_t c, int64_t n) TEPHRA_BODY {
    auto s0 = load_up_to(start + c, n);
    auto s1 = s0, s2 = s0, s3 = s0;
    for (int64_t k = 0; k < taps; ++k) {
      const auto w = load_up_to(weight + k * width + c, n);
      s0 = hn::MulAdd(w, load_up_to(in[k] + c, n), s0);
      s1 = hn::MulAdd(w, load_up_to(in[k + 1] + c, n), s1);
      s2 = hn::MulAdd(w, load_up_to(in[k + 2] + c, n), s2);
      s3 = hn::MulAdd(w, load_up_to(in[k + 3] + c, n), s3);
    }
    write_up_to(out + c, s0, n, accumulate);
    write_up_to(out + stride + c, s1, n, accumulate);
    write_up_to(out + 2 * stride + c, s2, n, accumulate);
    write_up_to(out + 3 * stride + c, s3, n, accumulate);
  });
}

// Calls f(row, rows, segment, position) for runs of kStep tokens or one, none across segments.
template <class F>
void for_each_step(const Segments& segments, int64_t begin, int64_t end, F&& f) {
  const int32_t* start = segments.start_N.data<int32_t>();
  const int32_t* stop = segments.end_N.data<int32_t>();
  const int32_t* sequence = segments.sequence_N.data<int32_t>();
  for (int64_t r = begin; r < end;) {
    const int64_t rows = r + kStep <= end && r + kStep <= stop[r] ? kStep : 1;
    f(r, rows, sequence[r], r - start[r]);
    r += rows;
  }
}

// Rows [begin, end) of `out`, whose row at position p is the sum over the window from p + offset.
template <class T>
void convolve_tokens(const Segments& segments, const SegmentRows<T>& line, int64_t offset,
                     std::span<const acc_t<T>> start, std::span<const acc_t<T>> weight,
                     const Tensor& out, bool accumulate, int64_t begin, int64_t end,
                     Windows<T>& window) {
  const int64_t width = out.cols(), taps = static_cast<int64_t>(weight.size()) / width;
  for_each_step(segments, begin, end, [&](int64_t r, int64_t rows, int64_t segment, int64_t p) {
    window.assign(static_cast<size_t>(taps - 1 + rows), nullptr);
    point_at(line, segment, p + offset, window);
    visit_taps<T>(taps, [&]<int K>() {
      if (rows == kStep) {
        convolve_step<T, K>(width, taps, start.data(), weight.data(), window.data(), out.row<T>(r),
                            out.row_stride(), accumulate);
      } else {
        convolve_row<T, K>(width, taps, start.data(), weight.data(), window.data(), out.row<T>(r),
                           accumulate);
      }
    });
  });
}

// All rows of the state-shaped `out`, which lie at the positions before the first token.
template <class T>
void convolve_state(const SegmentRows<T>& line, int64_t offset, std::span<const acc_t<T>> start,
                    std::span<const acc_t<T>> weight, const Tensor& out, bool accumulate) {
  const int64_t width = out.cols(), rows = out.dim(1);
  const int64_t taps = static_cast<int64_t>(weight.size()) / width;
  parallel_for(out.rows(), kRows, [&](int64_t begin, int64_t end) {
    Windows<T> window(static_cast<size_t>(taps));
    for (int64_t r = begin; r < end; ++r) {
      point_at(line, r / rows, r % rows - rows + offset, window);
      visit_taps<T>(taps, [&]<int K>() {
        convolve_row<T, K>(width, taps, start.data(), weight.data(), window.data(), out.row<T>(r),
                           accumulate);
      });
    }
  });
}

void forward(const DepthwiseConv& k) {
  if (k.z.cols() == 0) return;
  visit_float(k.z.dtype(), [&]<class T>() {
    const int64_t width = k.z.cols(), oldest = 1 - k.weight.dim(2);
    const SegmentRows<T> line(k.segments, k.z, k.left, width);
    const auto weight = taps_of<T>(k.weight, false);
    const auto bias = widened<T>(k.bias);
    parallel_for(k.z.rows(), kRows, [&](int64_t begin, int64_t end) {
      Windows<T> window;
      convolve_tokens(k.segments, line, oldest, bias, weight, k.y, false, begin, end, window);
    });
    if (k.lead) convolve_state(line, oldest, bias, weight, k.lead, false);
  });
}

// sums [K + 1, C]: += dy * window[k] for each tap k, += dy for the bias, over kRuns rows.
template <class T, int K, int kRuns>
void add_weight_terms(int64_t width, int64_t num_taps, const T* const* dy, const T* const* window,
                      acc_t<T>* sums) {
  const int64_t taps = K > 0 ? K : num_taps;
  const Local<T, K, kRuns> in(window);
  const Local<T, 1, kRuns> d(dy);
  for_each_vector<T>(width, [&](int64_t c, int64_t n) TEPHRA_BODY {
    for (int64_t k = 0; k < taps; ++k) {
      auto sum = load_up_to(sums + k * width + c, n);
      for (int64_t i = 0; i < kRuns; ++i) {
        sum = hn::MulAdd(load_up_to(d[i] + c, n), load_up_to(in[i + k] + c, n), sum);
      }
      store_up_to(sums + k * width + c, sum, n);
    }
    auto sum = load_up_to(sums + taps * width + c, n);
    for (int64_t i = 0; i < kRuns; ++i) sum = hn::Add(load_up_to(d[i] + c, n), sum);
    store_up_to(sums + taps * width + c, sum, n);
  });
}

// convolve_step for the input's gradient and add_weight_terms in one pass over memory, with the
// same bits; `dy` are the K - 1 + kStep rows from the first one on, `weight` the taps reversed.
template <class T, int K>
void gradient_step(int64_t width, int64_t num_taps, const acc_t<T>* weight, const T* const* dy,
                   const T* const* window, T* dz, int64_t stride, bool accumulate, acc_t<T>* sums) {
  const int64_t taps = K > 0 ? K : num_taps;
  const Local<T, K, kStep> in(window), d(dy);
  for_each_vector<T>(width, [&](int64_t c, int64_t n) TEPHRA_BODY {
    const auto d0 = load_up_to(d[0] + c, n), d1 = load_up_to(d[1] + c, n);
    const auto d2 = load_up_to(d[2] + c, n), d3 = load_up_to(d[3] + c, n);
    auto s0 = set<T>(0), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t k = 0; k < taps; ++k) {
      const auto w = load_up_to(weight + k * width + c, n);
      s0 = hn::MulAdd(w, load_up_to(d[k] + c, n), s0);
      s1 = hn::MulAdd(w, load_up_to(d[k + 1] + c, n), s1);
      s2 = hn::MulAdd(w, load_up_to(d[k + 2] + c, n), s2);
      s3 = hn::MulAdd(w, load_up_to(d[k + 3] + c, n), s3);
    }
    for (int64_t k = 0; k < taps; ++k) {
      auto sum = load_up_to(sums + k * width + c, n);
      sum = hn::MulAdd(d0, load_up_to(in[k] + c, n), sum);
      sum = hn::MulAdd(d1, load_up_to(in[k + 1] + c, n), sum);
      sum = hn::MulAdd(d2, load_up_to(in[k + 2] + c, n), sum);
      sum = hn::MulAdd(d3, load_up_to(in[k + 3] + c, n), sum);
      store_up_to(sums + k * width + c, sum, n);
    }
    const auto sum = hn::Add(d0, load_up_to(sums + taps * width + c, n));
    store_up_to(sums + taps * width + c, hn::Add(d3, hn::Add(d2, hn::Add(d1, sum))), n);
    write_up_to(dz + c, s0, n, accumulate);
    write_up_to(dz + stride + c, s1, n, accumulate);
    write_up_to(dz + 2 * stride + c, s2, n, accumulate);
    write_up_to(dz + 3 * stride + c, s3, n, accumulate);
  });
}

// Sums over every output position, tokens first, then the lead rows; `dz` is written on the way.
template <class T, class InputGradient>
std::vector<acc_t<T>> weight_sums(const DepthwiseConvGrad& k, const SegmentRows<T>& in,
                                  const SegmentRows<T>& dout, std::span<const acc_t<T>> weight,
                                  const InputGradient& dz_rows) {
  const int64_t width = k.z.cols(), taps = k.weight.dim(2), tokens = k.z.rows();
  std::vector<acc_t<T>> total(static_cast<size_t>((taps + 1) * width));
  const auto add = [&](int64_t begin, int64_t end, acc_t<T>* sums) {
    Windows<T> dy, window, dz_window;
    const auto add_rows = [&](int64_t rows, int64_t segment, int64_t position) {
      dy.assign(static_cast<size_t>(rows), nullptr);
      window.assign(static_cast<size_t>(taps - 1 + rows), nullptr);
      point_at(dout, segment, position, dy);
      point_at(in, segment, position + 1 - taps, window);
      visit_taps<T>(taps, [&]<int K>() {
        if (rows == kStep) {
          add_weight_terms<T, K, kStep>(width, taps, dy.data(), window.data(), sums);
        } else {
          add_weight_terms<T, K, 1>(width, taps, dy.data(), window.data(), sums);
        }
      });
    };
    const auto step = [&](int64_t r, int64_t rows, int64_t segment, int64_t position) {
      if (!k.dz || rows < kStep) {
        if (k.dz) dz_rows(r, r + rows, dz_window);
        return add_rows(rows, segment, position);
      }
      dz_window.assign(static_cast<size_t>(taps - 1 + rows), nullptr);
      window.assign(static_cast<size_t>(taps - 1 + rows), nullptr);
      point_at(dout, segment, position, dz_window);
      point_at(in, segment, position + 1 - taps, window);
      visit_taps<T>(taps, [&]<int K>() {
        gradient_step<T, K>(width, taps, weight.data(), dz_window.data(), window.data(),
                            k.dz.row<T>(r), k.dz.row_stride(), k.accumulate_dz, sums);
      });
    };
    for_each_step(k.segments, begin, std::min(end, tokens), step);
    for (int64_t i = std::max(begin, tokens) - tokens; i < end - tokens; ++i) {
      add_rows(1, i / k.lead_rows, i % k.lead_rows - k.lead_rows);
    }
  };
  cpu::sum_rows<acc_t<T>>(tokens + k.segments.count * k.lead_rows, (taps + 1) * width, total.data(),
                          false, add);
  return total;
}

template <class Acc>
void write_gradient(const Tensor& grad, bool accumulate, const Acc* sums, int64_t stride,
                    int64_t at) {
  Acc* out = grad.data<Acc>();
  for (int64_t c = 0; c < grad.dim(0); ++c) {
    Acc& to = out[c * stride + at];
    to = accumulate ? to + sums[c] : sums[c];
  }
}

void backward(const DepthwiseConvGrad& k) {
  if (k.z.cols() == 0) return;
  visit_float(k.z.dtype(), [&]<class T>() {
    const int64_t width = k.z.cols(), taps = k.weight.dim(2);
    const SegmentRows<T> in(k.segments, k.z, k.left, width);
    const SegmentRows<T> dout(k.segments, k.dy, k.dlead, width);
    const auto weight = taps_of<T>(k.weight, true);
    const std::vector<acc_t<T>> nothing(static_cast<size_t>(width));
    const auto dz_rows = [&](int64_t begin, int64_t end, Windows<T>& window) {
      convolve_tokens(k.segments, dout, 0, nothing, weight, k.dz, k.accumulate_dz, begin, end,
                      window);
    };
    if (k.dweight || k.dbias) {
      const std::vector<acc_t<T>> sums = weight_sums<T>(k, in, dout, weight, dz_rows);
      for (int64_t tap = 0; k.dweight && tap < taps; ++tap) {
        write_gradient(k.dweight, k.accumulate_dweight, sums.data() + tap * width, taps, tap);
      }
      if (k.dbias) write_gradient(k.dbias, k.accumulate_dbias, sums.data() + taps * width, 1, 0);
    } else if (k.dz) {
      parallel_for(k.z.rows(), kRows, [&](int64_t begin, int64_t end) {
        Windows<T> window;
        dz_rows(begin, end, window);
      });
    }
    if (k.dleft) convolve_state(dout, 0, nothing, weight, k.dleft, k.accumulate_dleft);
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

void DepthwiseConv::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void DepthwiseConvGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif

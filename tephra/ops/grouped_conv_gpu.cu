// SPDX-License-Identifier: Apache-2.0
// What each tap sees is laid side by side, head by head, [heads][tokens][taps x dim]; then outputs,
// input gradients and weight gradients are batches of dense matrix products, one a head.
#include "tephra/device/gpu/gemm.h"
#include "tephra/ops/grouped_conv.h"
#include "tephra/ops/segment_rows_gpu.h"

namespace tephra::kernel {
namespace {

// Row t of head h: for each tap k the head's channels of the row `shift` + `step` * k away.
template <class T>
struct TapColumns {
  gpu::SegmentLine<const T> in;
  uint32_t tokens, dim;
  int64_t shift, step;
  gpu::Rows<T> out;

  // The row `away` from token t, null where there is none.
  __device__ const T* seen(int64_t t, int64_t away) const {
    const gpu::SegmentTable& s = in.segments;
    if (t + away >= s.start[t]) return t + away < s.end[t] ? in.rows[t + away] : nullptr;
    return in.at(s.sequence[t], t + away - s.start[t]);
  }

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto row = static_cast<uint32_t>(r), column = static_cast<uint32_t>(c);
    const uint32_t h = row / tokens, t = row % tokens, k = column / dim;
    const T* from = seen(t, shift + step * int64_t{k});
    gpu::store(out[r] + c,
               from ? gpu::load<W>(from + h * dim + (column - k * dim)) : gpu::Floats<W>{});
  }
};

template <class T>
Tensor taps_of(gpu::Stream& stream, const Segments& segments, const Tensor& rows,
               const Tensor& state, int64_t dim, int64_t taps, int64_t shift, int64_t step) {
  const int64_t heads = rows.cols() / dim, tokens = rows.rows();
  Tensor out({heads * tokens, taps * dim}, rows.dtype(), rows.device(), Purpose::workspace);
  const TapColumns<T> f{gpu::line_of<const T>(segments, rows, state),
                        static_cast<uint32_t>(tokens),
                        static_cast<uint32_t>(dim),
                        shift,
                        step,
                        gpu::rows_of<T>(out)};
  const bool wide = gpu::are_wide(dim, f.in.rows, f.in.state, f.out);
  gpu::for_each_wide(stream, out.rows(), out.cols(), wide, f);
  return out;
}

// weight [C, d, K] as [C][K][d], or for input gradients as [heads][K][c][i].
template <class T>
struct PackTapsElement {
  const T* weight;
  int64_t dim, taps;
  bool by_tap;
  T* out;

  __device__ void operator()(int64_t channel, int64_t at) const {
    const int64_t k = at / dim, i = at % dim, h = channel / dim, c = channel % dim;
    const int64_t place = by_tap ? ((h * taps + k) * dim + c) * dim + i : channel * taps * dim + at;
    out[place] = weight[(channel * dim + i) * taps + k];
  }
};

template <class T>
Tensor packed_taps(gpu::Stream& stream, const Tensor& weight, bool by_tap) {
  const int64_t dim = weight.dim(1), taps = weight.dim(2);
  Tensor out({weight.dim(0), taps * dim}, weight.dtype(), weight.device(), Purpose::workspace);
  gpu::for_each(stream, out.rows(), out.cols(),
                PackTapsElement<T>{weight.data<T>(), dim, taps, by_tap, out.data<T>()});
  return out;
}

template <class T>
struct ConvBiasColumns {
  const T* bias;
  gpu::Rows<T> y;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    gpu::store(y[r] + c, gpu::load<W>(bias + c));
  }
};

// dweight[c, i, k] = the sum of its parts [heads][count][d][K x d].
struct ConvWeightElement {
  const float* parts;
  int64_t count, dim, taps;
  float* dweight;
  bool accumulate;

  __device__ void operator()(int64_t channel, int64_t at) const {
    const int64_t h = channel / dim, c = channel % dim, i = at / taps, k = at % taps;
    const int64_t width = taps * dim;
    const float* part = parts + (h * count * dim + c) * width + k * dim + i;
    float sum = 0;
#pragma unroll 4
    for (int64_t s = 0; s < count; ++s) sum += part[s * dim * width];
    gpu::write(dweight + channel * width + at, sum, accumulate);
  }
};

// A block for each head of each row of the state; its threads share the sums over taps and channels
// of each element, for there are few of these rows.
template <class T>
struct GroupedConvLeftHead {
  gpu::SegmentLine<const T> dy;
  const T* weight;
  int64_t heads, dim, taps;
  gpu::Rows<T> dleft;
  bool accumulate;

  static constexpr int kColumns = 32, kGroups = gpu::kThreads / kColumns;

  __device__ void operator()(int64_t block) const {
    const int64_t at = block / heads, base = block % heads * dim;
    const int64_t segment = at / (taps - 1), position = at % (taps - 1) - (taps - 1);
    const int group = static_cast<int>(threadIdx.x) / kColumns;
    const int column = static_cast<int>(threadIdx.x) % kColumns;
    for (int64_t first = 0; first < dim; first += kColumns) {
      const int64_t i = first + column;
      gpu::Floats<1> sum;
      for (int64_t k = 0; i < dim && k < taps; ++k) {
        const int64_t output = position + taps - 1 - k;
        const T* row = output >= 0 ? dy.at(segment, output) : nullptr;
        if (!row) continue;
#pragma unroll 8
        for (int64_t c = group; c < dim; c += kGroups) {
          const float w = float(weight[((base + c) * dim + i) * taps + k]);
          sum[0] = fmaf(float(row[base + c]), w, sum[0]);
        }
      }
      sum = gpu::sum_groups<1, kColumns, kGroups>(sum, group, column);
      if (group == 0 && i < dim) gpu::write(dleft[at] + base + i, sum[0], accumulate);
      __syncthreads();  // the sums are read
    }
  }
};

// The rows of a weight gradient are summed in so many stretches side by side: there are few heads.
int64_t stretches_of(int64_t tokens) {
  constexpr int64_t kMost = 16, kLeastRows = 256;
  int64_t count = 1;
  while (count < kMost && tokens % (2 * count) == 0 && tokens / (2 * count) >= kLeastRows) {
    count *= 2;
  }
  return count;
}

template <class T>
constexpr gpu::Number kConvNumber = std::is_same_v<T, float> ? gpu::Number::f32 : gpu::Number::bf16;

// `taps_seen` is u's; d has dy beside its later rows, the last tap being dy itself.
template <class T>
void conv_weight_grad(gpu::Stream& stream, const GroupedConvGrad& g, const Tensor& taps_seen,
                      const Tensor& d) {
  const int64_t dim = g.weight.dim(1), taps = g.weight.dim(2), width = taps * dim;
  const int64_t heads = g.u.cols() / dim, tokens = g.u.rows(), count = stretches_of(tokens);
  const int64_t rows = tokens / count;
  const Tensor parts({heads * count * dim, width}, DType::f32, g.u.device(), Purpose::workspace);
  const T* dy = d.data<T>() + (taps - 1) * dim;
  gpu::gemm(stream, {dim, width, rows, dy, width, true, taps_seen.raw(), width, false, parts.raw(),
                     width, kConvNumber<T>, gpu::Number::f32, 1, 0, heads * count, rows * width,
                     rows * width, dim * width});
  gpu::for_each(stream, g.u.cols(), width,
                ConvWeightElement{parts.data<float>(), count, dim, taps, g.dweight.data<float>(),
                                  g.accumulate_dweight});
}

}  // namespace

void GroupedConv::on_gpu(gpu::Stream& stream) const {
  const int64_t dim = weight.dim(1), taps = weight.dim(2), width = taps * dim, tokens = u.rows();
  gpu::visit_float(u.dtype(), [&]<class T>() {
    const Tensor seen = taps_of<T>(stream, segments, u, left, dim, taps, 1 - taps, 1);
    const Tensor packed = packed_taps<T>(stream, weight, false);
    const ConvBiasColumns<T> f{bias.data<T>(), gpu::rows_of<T>(y)};
    gpu::for_each_wide(stream, tokens, y.cols(), gpu::are_wide(y.cols(), f.bias, f.y), f);
    gpu::gemm(stream, {tokens, dim, width, seen.raw(), width, false, packed.raw(), width, true,
                       y.raw(), y.row_stride(), kConvNumber<T>, kConvNumber<T>, 1, 1,
                       u.cols() / dim, tokens * width, dim * width, dim});
  });
}

void GroupedConvGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t dim = weight.dim(1), taps = weight.dim(2), width = taps * dim, tokens = u.rows();
  gpu::visit_float(u.dtype(), [&]<class T>() {
    Tensor d;
    if (du || dweight) d = taps_of<T>(stream, segments, dy, {}, dim, taps, taps - 1, -1);
    if (du) {
      const Tensor packed = packed_taps<T>(stream, weight, true);
      gpu::gemm(stream,
                {tokens, dim, width, d.raw(), width, false, packed.raw(), dim, false, du.raw(),
                 du.row_stride(), kConvNumber<T>, kConvNumber<T>, 1, accumulate_du ? 1.0f : 0.0f,
                 u.cols() / dim, tokens * width, width * dim, dim});
    }
    if (dweight) {
      conv_weight_grad<T>(stream, *this,
                          taps_of<T>(stream, segments, u, left, dim, taps, 1 - taps, 1), d);
    }
    if (dbias) {
      gpu::sum_rows(stream, gpu::rows_of<const T>(dy), dy.rows(), dy.cols(), dbias.data<float>(),
                    accumulate_dbias);
    }
    if (dleft && taps > 1) {
      const int64_t heads = u.cols() / dim;
      gpu::for_each_row(
          stream, dleft.rows() * heads,
          GroupedConvLeftHead<T>{gpu::line_of<const T>(segments, dy, {}), weight.data<T>(), heads,
                                 dim, taps, gpu::rows_of<T>(dleft), accumulate_dleft});
    }
  });
}

}  // namespace tephra::kernel

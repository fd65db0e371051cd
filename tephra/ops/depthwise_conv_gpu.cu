// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/depthwise_conv.h"
#include "tephra/ops/segment_rows_gpu.h"

namespace tephra::kernel {
namespace {

// Where an output lies: tokens first, then the lead rows of each segment.
struct ConvPlace {
  int64_t segment, position;

  __device__ ConvPlace(const gpu::SegmentTable& s, int64_t tokens, int64_t lead_rows, int64_t i) {
    if (i < tokens) {
      segment = s.sequence[i];
      position = i - s.start[i];
    } else {
      segment = (i - tokens) / lead_rows;
      position = (i - tokens) % lead_rows - lead_rows;
    }
  }
};

// The taps of W channels from c on; kTaps is their number where it is known, else 0.
template <int W, int kTaps, class T>
struct ChannelTaps {
  float at[W][kTaps];

  __device__ ChannelTaps(const T* weight, int64_t c) {
#pragma unroll
    for (int j = 0; j < kTaps; ++j) {
      const auto flat = gpu::load<W>(weight + c * kTaps + j * W);
#pragma unroll
      for (int i = 0; i < W; ++i) at[(j * W + i) / kTaps][(j * W + i) % kTaps] = flat[i];
    }
  }
  __device__ float operator()(int i, int64_t k) const { return at[i][k]; }
};
template <int W, class T>
struct ChannelTaps<W, 0, T> {
  const T* weight;
  int64_t taps;

  __device__ float operator()(int i, int64_t k) const { return float(weight[i * taps + k]); }
};

constexpr int kUsualTaps = 2;

template <class T, int kTaps>
struct DepthwiseColumns {
  gpu::SegmentLine<const T> z;
  const T *weight, *bias;
  int64_t tokens, taps, lead_rows;
  gpu::Rows<T> y, lead;

  template <int W>
  __device__ auto weights(int64_t c) const {
    if constexpr (kTaps == 0) {
      return ChannelTaps<W, 0, T>{weight + c * taps, taps};
    } else {
      return ChannelTaps<W, kTaps, T>(weight, c);
    }
  }

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const ConvPlace at(z.segments, tokens, lead_rows, r);
    const auto w = weights<W>(c);
    auto sum = gpu::load<W>(bias + c);
#pragma unroll
    for (int64_t k = 0; k < (kTaps > 0 ? kTaps : taps); ++k) {
      const T* row = z.at(at.segment, at.position - taps + 1 + k);
      if (!row) continue;
      const auto v = gpu::load<W>(row + c);
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] = fmaf(w(i, k), v[i], sum[i]);
    }
    gpu::store((r < tokens ? y[r] : lead[r - tokens]) + c, sum);
  }
};

// The gradient that came to the output at a position; lead outputs have negative ones.
template <class T>
struct ConvGradient {
  gpu::SegmentLine<const T> d;  // dy, with dlead for a state

  __device__ float at(int64_t segment, int64_t position, int64_t c) const {
    const T* row = d.at(segment, position);
    return row ? float(row[c]) : 0.0f;
  }
};

template <class T>
__device__ float input_gradient(const ConvGradient<T>& d, const T* weight, int64_t taps,
                                int64_t segment, int64_t position, int64_t c) {
  float sum = 0;
  for (int64_t k = 0; k < taps; ++k) {
    sum = fmaf(float(weight[c * taps + k]), d.at(segment, position + taps - 1 - k, c), sum);
  }
  return sum;
}

template <class T>
struct DepthwiseGradElement {
  ConvGradient<T> d;
  const T* weight;
  int64_t taps;
  gpu::Rows<T> dz;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    const gpu::SegmentTable& s = d.d.segments;
    const float g = input_gradient(d, weight, taps, s.sequence[r], r - s.start[r], c);
    gpu::write(dz[r] + c, g, accumulate);
  }
};

template <class T>
struct DepthwiseLeftElement {
  ConvGradient<T> d;
  const T* weight;
  int64_t taps, state_rows;
  gpu::Rows<T> dleft;
  bool accumulate;

  __device__ void operator()(int64_t i, int64_t c) const {
    const int64_t position = i % state_rows - state_rows;
    const float g = input_gradient(d, weight, taps, i / state_rows, position, c);
    gpu::write(dleft[i] + c, g, accumulate);
  }
};

// Of dweight [C, 1, taps] by its flat index, or of dbias.
template <class T, bool kBias>
struct DepthwiseTerm {
  ConvGradient<T> d;
  gpu::SegmentLine<const T> z;
  int64_t tokens, taps, lead_rows;

  __device__ float operator()(int64_t i, int64_t at) const {
    const ConvPlace place(z.segments, tokens, lead_rows, i);
    if constexpr (kBias) return d.at(place.segment, place.position, at);
    const int64_t c = at / taps, k = at % taps;
    const T* row = z.at(place.segment, place.position - taps + 1 + k);
    return row ? d.at(place.segment, place.position, c) * float(row[c]) : 0.0f;
  }
};

// Rows r to r + kConvRows - 1 of the tokens, of gradients one more, of inputs one before: all of
// them are asked for before any is needed, and each is read once.
constexpr int kConvRows = 4;

template <class T>
struct ConvWindow {
  gpu::Packed<gpu::kWide, T> d[kConvRows + 1], z[kConvRows + 1];

  __device__ ConvWindow(const gpu::Rows<const T>& dy, const gpu::Rows<const T>& in, int64_t tokens,
                        int64_t r, int64_t c) {
#pragma unroll
    for (int i = 0; i <= kConvRows; ++i) {
      const bool later = dy && r + i < tokens, before = r + i >= 1 && r + i - 1 < tokens;
      d[i] = later ? gpu::load_packed<gpu::kWide>(dy[r + i] + c) : gpu::Packed<gpu::kWide, T>{};
      z[i] =
          before ? gpu::load_packed<gpu::kWide>(in[r + i - 1] + c) : gpu::Packed<gpu::kWide, T>{};
    }
  }
};

// Sums over outputs, of kWide channels.
struct ConvSums {
  gpu::Floats<gpu::kWide> older, newer, bias;

  template <class Row>
  __device__ void add(const Row& g, const Row& before, const Row& now) {
#pragma unroll
    for (int i = 0; i < gpu::kWide; ++i) {
      older[i] += float(g[i]) * float(before[i]);
      newer[i] += float(g[i]) * float(now[i]);
      bias[i] += float(g[i]);
    }
  }

  // To a part: of dweight as it lies, then of dbias.
  __device__ void write(float* to, int64_t cols, int64_t c) const {
    constexpr int W = gpu::kWide;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      gpu::store(to + 2 * c + half * W, gpu::Floats<W>::of([&](int i) {
                   const int channel = half * (W / 2) + i / 2;
                   return i % 2 == 0 ? older[channel] : newer[channel];
                 }));
    }
    gpu::store(to + 2 * cols + c, bias);
  }
};

// Two taps: gradients of the input, the weight and the bias in one pass. A thread has kWide
// channels of a part of the outputs: tokens first, then the lead rows. parts [gridDim.y][3 * cols].
template <class T>
__global__ void depthwise_grad_rows(ConvGradient<T> d, gpu::SegmentLine<const T> z, const T* weight,
                                    int64_t tokens, int64_t lead_rows, int64_t outputs,
                                    int64_t rows_each, int64_t cols, gpu::Rows<T> dz,
                                    bool accumulate, float* parts) {
  constexpr int W = gpu::kWide;
  using Row = gpu::Packed<W, T>;
  const int64_t c = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
  if (c >= cols) return;
  const ChannelTaps<W, kUsualTaps, T> w(weight, c);
  const gpu::SegmentTable& s = z.segments;
  const auto row_of = [&](const T* row) { return row ? gpu::load_packed<W>(row + c) : Row{}; };
  ConvSums sums;
  const int64_t begin = blockIdx.y * rows_each;
  const int64_t end = begin + rows_each < outputs ? begin + rows_each : outputs;
  const int64_t last = end < tokens ? end : tokens;
  for (int64_t r0 = begin; r0 < last; r0 += kConvRows) {
    const ConvWindow<T> rows(d.d.rows, z.rows, tokens, r0, c);
#pragma unroll
    for (int i = 0; i < kConvRows; ++i) {
      const int64_t r = r0 + i;
      if (r >= last) continue;
      const Row before = r > s.start[r] ? rows.z[i] : row_of(z.at(s.sequence[r], -1));
      sums.add(rows.d[i], before, rows.z[i + 1]);
      if (!dz) continue;
      const Row next = r + 1 < s.end[r] ? rows.d[i + 1] : Row{};
      gpu::write(dz[r] + c, gpu::Floats<W>::of([&](int k) {
                   return fmaf(w(k, 0), float(next[k]), w(k, 1) * float(rows.d[i][k]));
                 }),
                 accumulate);
    }
  }
  for (int64_t r = begin > tokens ? begin : tokens; r < end; ++r) {
    const ConvPlace at(s, tokens, lead_rows, r);
    sums.add(row_of(d.d.at(at.segment, at.position)), row_of(z.at(at.segment, at.position - 1)),
             row_of(z.at(at.segment, at.position)));
  }
  sums.write(parts + blockIdx.y * 3 * cols, cols, c);
}

// False when the shape is not for it.
template <class T>
bool depthwise_grad_fused(gpu::Stream& stream, const DepthwiseConvGrad& g, const ConvGradient<T>& d,
                          const gpu::SegmentLine<const T>& in) {
  const auto dz = gpu::rows_of<T>(g.dz);
  const int64_t cols = g.z.cols(), outputs = g.z.rows() + g.segments.count * g.lead_rows;
  if (g.weight.dim(2) != kUsualTaps || outputs == 0 ||
      !gpu::are_wide(cols, d.d.rows, d.d.state, in.rows, in.state, g.weight.data<T>(), dz)) {
    return false;
  }
  constexpr int kColumns = 64;
  const gpu::RowParts cut(outputs);
  const Tensor parts({cut.count, 3 * cols}, DType::f32, g.z.device(), Purpose::workspace);
  const float* sums = parts.data<float>();
  stream.launch(depthwise_grad_rows<T>,
                {.blocks = gpu::blocks_for(cols, int64_t{kColumns} * gpu::kWide),
                 .blocks_y = cut.count,
                 .threads = kColumns},
                d, in, g.weight.data<T>(), g.z.rows(), g.lead_rows, outputs, cut.rows_each, cols,
                dz, g.accumulate_dz, parts.data<float>());
  if (g.dweight) {
    gpu::sum_parts(stream, sums, cut.count, 3 * cols, 2 * cols, g.dweight.data<float>(),
                   g.accumulate_dweight);
  }
  if (g.dbias) {
    gpu::sum_parts(stream, sums + 2 * cols, cut.count, 3 * cols, cols, g.dbias.data<float>(),
                   g.accumulate_dbias);
  }
  return true;
}

}  // namespace

void DepthwiseConv::on_gpu(gpu::Stream& stream) const {
  const int64_t lead_rows = lead ? lead.dim(1) : 0, count = segments.count * lead_rows;
  gpu::visit_float(z.dtype(), [&]<class T>() {
    const auto run = [&]<int kTaps>() {
      const DepthwiseColumns<T, kTaps> f{gpu::line_of<const T>(segments, z, left),
                                         weight.data<T>(),
                                         bias.data<T>(),
                                         z.rows(),
                                         weight.dim(2),
                                         lead_rows,
                                         gpu::rows_of<T>(y),
                                         gpu::rows_of<T>(lead)};
      const bool wide = gpu::are_wide(z.cols(), f.z.rows, f.z.state, f.weight, f.bias, f.y, f.lead);
      gpu::for_each_wide(stream, z.rows() + count, z.cols(), wide, f);
    };
    if (weight.dim(2) == kUsualTaps) {
      run.template operator()<kUsualTaps>();
    } else {
      run.template operator()<0>();
    }
  });
}

void DepthwiseConvGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t taps = weight.dim(2), outputs = z.rows() + segments.count * lead_rows;
  gpu::visit_float(z.dtype(), [&]<class T>() {
    const ConvGradient<T> d{gpu::line_of<const T>(segments, dy, dlead)};
    const auto in = gpu::line_of<const T>(segments, z, left);
    if (dleft) {
      gpu::for_each(stream, dleft.rows(), z.cols(),
                    DepthwiseLeftElement<T>{d, weight.data<T>(), taps, dleft.dim(1),
                                            gpu::rows_of<T>(dleft), accumulate_dleft});
    }
    if (depthwise_grad_fused<T>(stream, *this, d, in)) return;
    if (dz) {
      gpu::for_each(
          stream, z.rows(), z.cols(),
          DepthwiseGradElement<T>{d, weight.data<T>(), taps, gpu::rows_of<T>(dz), accumulate_dz});
    }
    if (dweight) {
      gpu::sum_rows(stream, outputs, z.cols() * taps,
                    DepthwiseTerm<T, false>{d, in, z.rows(), taps, lead_rows},
                    dweight.data<float>(), accumulate_dweight);
    }
    if (dbias) {
      gpu::sum_rows(stream, outputs, z.cols(),
                    DepthwiseTerm<T, true>{d, in, z.rows(), taps, lead_rows}, dbias.data<float>(),
                    accumulate_dbias);
    }
  });
}

}  // namespace tephra::kernel

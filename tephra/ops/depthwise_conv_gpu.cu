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

template <class T>
struct DepthwiseElement {
  gpu::SegmentLine<const T> z;
  const T *weight, *bias;
  int64_t tokens, taps, lead_rows;
  gpu::Rows<T> y, lead;

  __device__ void operator()(int64_t i, int64_t c) const {
    const ConvPlace at(z.segments, tokens, lead_rows, i);
    float sum = float(bias[c]);
    for (int64_t k = 0; k < taps; ++k) {
      const T* row = z.at(at.segment, at.position - taps + 1 + k);
      if (row) sum = fmaf(float(weight[c * taps + k]), float(row[c]), sum);
    }
    (i < tokens ? y[i] : lead[i - tokens])[c] = T(sum);
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

}  // namespace

void DepthwiseConv::on_gpu(gpu::Stream& stream) const {
  const int64_t lead_rows = lead ? lead.dim(1) : 0, count = segments.count * lead_rows;
  gpu::visit_float(z.dtype(), [&]<class T>() {
    gpu::for_each(stream, z.rows() + count, z.cols(),
                  DepthwiseElement<T>{gpu::line_of<const T>(segments, z, left), weight.data<T>(),
                                      bias.data<T>(), z.rows(), weight.dim(2), lead_rows,
                                      gpu::rows_of<T>(y), gpu::rows_of<T>(lead)});
  });
}

void DepthwiseConvGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t taps = weight.dim(2), outputs = z.rows() + segments.count * lead_rows;
  gpu::visit_float(z.dtype(), [&]<class T>() {
    ConvGradient<T> d{gpu::line_of<const T>(segments, dy, dlead)};
    const auto in = gpu::line_of<const T>(segments, z, left);
    if (dz) {
      gpu::for_each(
          stream, z.rows(), z.cols(),
          DepthwiseGradElement<T>{d, weight.data<T>(), taps, gpu::rows_of<T>(dz), accumulate_dz});
    }
    if (dleft) {
      gpu::for_each(stream, dleft.rows(), z.cols(),
                    DepthwiseLeftElement<T>{d, weight.data<T>(), taps, dleft.dim(1),
                                            gpu::rows_of<T>(dleft), accumulate_dleft});
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

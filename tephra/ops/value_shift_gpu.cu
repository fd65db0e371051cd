// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/segment_rows_gpu.h"
#include "tephra/ops/value_shift.h"

namespace tephra::kernel {
namespace {

template <class T>
struct ValueShiftElement {
  gpu::Rows<const T> v, left;
  gpu::SegmentTable segments;
  int64_t half;
  gpu::Rows<T> out;

  __device__ void operator()(int64_t r, int64_t c) const {
    if (c < half) {
      out[r][c] = v[r][c];
    } else if (r > segments.start[r]) {
      out[r][c] = v[r - 1][c];
    } else {
      out[r][c] = left ? left[segments.sequence[r]][c - half] : T(0.0f);
    }
  }
};

template <class T>
struct ValueShiftGradElement {
  gpu::Rows<const T> dout;
  gpu::SegmentTable segments;
  int64_t half;
  gpu::Rows<T> dv;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    float d = 0;
    if (c < half) {
      d = float(dout[r][c]);
    } else if (r + 1 < segments.end[r]) {
      d = float(dout[r + 1][c]);
    }
    gpu::write(dv[r] + c, d, accumulate);
  }
};

template <class T>
struct ValueShiftLeftElement {
  gpu::Rows<const T> dout;
  gpu::SegmentTable segments;
  int64_t half;
  gpu::Rows<T> dleft;
  bool accumulate;

  __device__ void operator()(int64_t b, int64_t c) const {
    const float d = segments.length(b) > 0 ? float(dout[segments.bounds[b]][half + c]) : 0.0f;
    gpu::write(dleft[b] + c, d, accumulate);
  }
};

}  // namespace

void ValueShift::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(v.dtype(), [&]<class T>() {
    gpu::for_each(
        stream, v.rows(), v.cols(),
        ValueShiftElement<T>{gpu::rows_of<const T>(v), gpu::rows_of<const T>(left),
                             gpu::table_of(segments), v.cols() / 2, gpu::rows_of<T>(out)});
  });
}

void ValueShiftGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t half = dout.cols() / 2;
  gpu::visit_float(dout.dtype(), [&]<class T>() {
    const auto d = gpu::rows_of<const T>(dout);
    const gpu::SegmentTable s = gpu::table_of(segments);
    if (dv) {
      gpu::for_each(stream, dout.rows(), dout.cols(),
                    ValueShiftGradElement<T>{d, s, half, gpu::rows_of<T>(dv), accumulate_dv});
    }
    if (dleft) {
      gpu::for_each(stream, segments.count, half,
                    ValueShiftLeftElement<T>{d, s, half, gpu::rows_of<T>(dleft), accumulate_dleft});
    }
  });
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/segment_rows_gpu.h"
#include "tephra/ops/value_shift.h"

namespace tephra::kernel {
namespace {

template <class T>
struct ValueShiftColumns {
  gpu::Rows<const T> v, left;
  gpu::SegmentTable segments;
  int64_t half;
  gpu::Rows<T> out;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    gpu::Floats<W> value;
    if (c < half) {
      value = gpu::load<W>(v[r] + c);
    } else if (r > segments.start[r]) {
      value = gpu::load<W>(v[r - 1] + c);
    } else if (left) {
      value = gpu::load<W>(left[segments.sequence[r]] + c - half);
    }
    gpu::store(out[r] + c, value);
  }
};

template <class T>
struct ValueShiftGradColumns {
  gpu::Rows<const T> dout;
  gpu::SegmentTable segments;
  int64_t half;
  gpu::Rows<T> dv;
  bool accumulate;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    gpu::Floats<W> d;
    if (c < half) {
      d = gpu::load<W>(dout[r] + c);
    } else if (r + 1 < segments.end[r]) {
      d = gpu::load<W>(dout[r + 1] + c);
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
    const ValueShiftColumns<T> f{gpu::rows_of<const T>(v), gpu::rows_of<const T>(left),
                                 gpu::table_of(segments), v.cols() / 2, gpu::rows_of<T>(out)};
    gpu::for_each_wide(stream, v.rows(), v.cols(), gpu::are_wide(f.half, f.v, f.left, f.out), f);
  });
}

void ValueShiftGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t half = dout.cols() / 2;
  gpu::visit_float(dout.dtype(), [&]<class T>() {
    const auto d = gpu::rows_of<const T>(dout);
    const gpu::SegmentTable s = gpu::table_of(segments);
    if (dv) {
      const ValueShiftGradColumns<T> f{d, s, half, gpu::rows_of<T>(dv), accumulate_dv};
      gpu::for_each_wide(stream, dout.rows(), dout.cols(), gpu::are_wide(half, f.dout, f.dv), f);
    }
    if (dleft) {
      gpu::for_each(stream, segments.count, half,
                    ValueShiftLeftElement<T>{d, s, half, gpu::rows_of<T>(dleft), accumulate_dleft});
    }
  });
}

}  // namespace tephra::kernel

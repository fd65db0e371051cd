// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/segment_rows_gpu.h"
#include "tephra/ops/tail_state.h"

namespace tephra::kernel {
namespace {

template <class T>
struct TailElement {
  gpu::SegmentLine<const T> z;
  int64_t rows;
  gpu::Rows<T> tail;

  __device__ void operator()(int64_t i, int64_t c) const {
    const int64_t segment = i / rows;
    const T* row = z.at(segment, z.segments.length(segment) - rows + i % rows);
    tail[i][c] = row ? row[c] : T(0.0f);
  }
};

template <class T>
struct TailGradElement {
  gpu::Rows<const T> dtail;
  gpu::SegmentTable segments;
  int64_t rows;
  gpu::Rows<T> dz;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t at = rows - (segments.end[r] - r);
    const float d = at >= 0 ? float(dtail[segments.sequence[r] * rows + at][c]) : 0.0f;
    gpu::write(dz[r] + c, d, accumulate);
  }
};

template <class T>
struct TailLeftElement {
  gpu::Rows<const T> dtail;
  gpu::SegmentTable segments;
  int64_t rows;
  gpu::Rows<T> dleft;
  bool accumulate;

  __device__ void operator()(int64_t i, int64_t c) const {
    const int64_t segment = i / rows, at = i % rows - segments.length(segment);
    const float d = at >= 0 ? float(dtail[segment * rows + at][c]) : 0.0f;
    gpu::write(dleft[i] + c, d, accumulate);
  }
};

}  // namespace

void TailState::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(z.dtype(), [&]<class T>() {
    gpu::for_each(stream, tail.rows(), tail.cols(),
                  TailElement<T>{gpu::line_of<const T>(segments, z, left), tail.dim(1),
                                 gpu::rows_of<T>(tail)});
  });
}

void TailStateGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t rows = dtail.dim(1);
  gpu::visit_float(dtail.dtype(), [&]<class T>() {
    const auto d = gpu::rows_of<const T>(dtail);
    const gpu::SegmentTable s = gpu::table_of(segments);
    if (dz) {
      gpu::for_each(stream, dz.rows(), dz.cols(),
                    TailGradElement<T>{d, s, rows, gpu::rows_of<T>(dz), accumulate_dz});
    }
    if (dleft) {
      gpu::for_each(stream, dleft.rows(), dleft.cols(),
                    TailLeftElement<T>{d, s, rows, gpu::rows_of<T>(dleft), accumulate_dleft});
    }
  });
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/swiglu.h"

namespace tephra::kernel {
namespace {

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

template <class T>
struct SwigluElement {
  gpu::Rows<const T> x;
  gpu::Rows<T> y;
  int64_t width;

  __device__ void operator()(int64_t r, int64_t c) const {
    const float gate = float(x[r][c]), up = float(x[r][width + c]);
    y[r][c] = T(gate * sigmoid(gate) * up);
  }
};

template <class T>
struct SwigluGradElement {
  gpu::Rows<const T> dy, x;
  gpu::Rows<T> dx;
  int64_t width;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    const float gate = float(x[r][c]), up = float(x[r][width + c]), d = float(dy[r][c]);
    const float s = sigmoid(gate);
    gpu::write(dx[r] + c, d * up * s * (1.0f + gate * (1.0f - s)), accumulate);
    gpu::write(dx[r] + width + c, d * gate * s, accumulate);
  }
};

}  // namespace

void Swiglu::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    gpu::for_each(stream, y.rows(), y.cols(),
                  SwigluElement<T>{gpu::rows_of<const T>(x), gpu::rows_of<T>(y), y.cols()});
  });
}

void SwigluGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    gpu::for_each(stream, dy.rows(), dy.cols(),
                  SwigluGradElement<T>{gpu::rows_of<const T>(dy), gpu::rows_of<const T>(x),
                                       gpu::rows_of<T>(dx.grad), dy.cols(), dx.accumulate});
  });
}

}  // namespace tephra::kernel

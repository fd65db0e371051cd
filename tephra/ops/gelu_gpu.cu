// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/gelu.h"

namespace tephra::kernel {
namespace {

constexpr float kInverseRoot2 = 0.70710678f, kInverseRoot2Pi = 0.39894228f;

// Phi(x), without cancellation on either side.
__device__ float normal_distribution(float x) { return 0.5f * erfcf(-x * kInverseRoot2); }

template <class T>
struct GeluElement {
  gpu::Rows<const T> x;
  gpu::Rows<T> y;

  __device__ void operator()(int64_t r, int64_t c) const {
    const float v = float(x[r][c]);
    y[r][c] = T(v * normal_distribution(v));
  }
};

template <class T>
struct GeluGradElement {
  gpu::Rows<const T> dy, x;
  gpu::Rows<T> dx;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    const float v = float(x[r][c]);
    const float slope = normal_distribution(v) + v * kInverseRoot2Pi * expf(-0.5f * v * v);
    gpu::write(dx[r] + c, float(dy[r][c]) * slope, accumulate);
  }
};

}  // namespace

void Gelu::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    gpu::for_each(stream, x.rows(), x.cols(),
                  GeluElement<T>{gpu::rows_of<const T>(x), gpu::rows_of<T>(y)});
  });
}

void GeluGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    gpu::for_each(stream, x.rows(), x.cols(),
                  GeluGradElement<T>{gpu::rows_of<const T>(dy), gpu::rows_of<const T>(x),
                                     gpu::rows_of<T>(dx.grad), dx.accumulate});
  });
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/gelu.h"

namespace tephra::kernel {
namespace {

constexpr float kInverseRoot2 = 0.70710678f, kInverseRoot2Pi = 0.39894228f;

// Phi(x), without cancellation on either side.
__device__ float normal_distribution(float x) { return 0.5f * erfcf(-x * kInverseRoot2); }

template <class T>
struct GeluColumns {
  gpu::Rows<const T> x;
  gpu::Rows<T> y;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto v = gpu::load<W>(x[r] + c);
    gpu::store(y[r] + c,
               gpu::Floats<W>::of([&](int i) { return v[i] * normal_distribution(v[i]); }));
  }
};

template <class T>
struct GeluGradColumns {
  gpu::Rows<const T> dy, x;
  gpu::Rows<T> dx;
  bool accumulate;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto v = gpu::load<W>(x[r] + c), d = gpu::load<W>(dy[r] + c);
    gpu::write(dx[r] + c, gpu::Floats<W>::of([&](int i) {
                 const float bell = v[i] * kInverseRoot2Pi * expf(-0.5f * v[i] * v[i]);
                 return d[i] * (normal_distribution(v[i]) + bell);
               }),
               accumulate);
  }
};

}  // namespace

void Gelu::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const GeluColumns<T> f{gpu::rows_of<const T>(x), gpu::rows_of<T>(y)};
    gpu::for_each_wide(stream, x.rows(), x.cols(), gpu::are_wide(x.cols(), f.x, f.y), f);
  });
}

void GeluGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const GeluGradColumns<T> f{gpu::rows_of<const T>(dy), gpu::rows_of<const T>(x),
                               gpu::rows_of<T>(dx.grad), dx.accumulate};
    gpu::for_each_wide(stream, x.rows(), x.cols(), gpu::are_wide(x.cols(), f.dy, f.x, f.dx), f);
  });
}

}  // namespace tephra::kernel

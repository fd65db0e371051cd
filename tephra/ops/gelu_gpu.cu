// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/gelu.h"

namespace tephra::kernel {
namespace {

constexpr float kInverseRoot2 = 0.70710678f, kInverseRoot2Pi = 0.39894228f;

// Phi(x) and exp(-x^2 / 2).
struct Normal {
  float below, bell;
};

// Without cancellation on either side.
template <class T>
__device__ Normal normal_at(float x) {
  return {0.5f * erfcf(-x * kInverseRoot2), expf(-0.5f * x * x)};
}

// For bf16: the upper tail as a polynomial times the bell (Abramowitz and Stegun 7.1.26), within
// 1e-7 and, to four deviations, within 1e-3 of itself.
template <>
__device__ Normal normal_at<bf16>(float x) {
  const float bell = expf(-0.5f * x * x);
  const float t = 1.0f / fmaf(0.3275911f * kInverseRoot2, fabsf(x), 1.0f);
  float p = fmaf(1.061405429f, t, -1.453152027f);
  p = fmaf(p, t, 1.421413741f);
  p = fmaf(p, t, -0.284496736f);
  p = fmaf(p, t, 0.254829592f);
  const float beyond = 0.5f * p * t * bell;
  return {x < 0 ? beyond : 1.0f - beyond, bell};
}

template <class T>
struct GeluColumns {
  gpu::Rows<const T> x;
  gpu::Rows<T> y;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto v = gpu::load<W>(x[r] + c);
    gpu::store(y[r] + c,
               gpu::Floats<W>::of([&](int i) { return v[i] * normal_at<T>(v[i]).below; }));
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
                 const Normal n = normal_at<T>(v[i]);
                 return d[i] * (n.below + v[i] * kInverseRoot2Pi * n.bell);
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

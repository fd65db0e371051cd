// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/swiglu.h"

namespace tephra::kernel {
namespace {

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

template <class T>
struct SwigluColumns {
  gpu::Rows<const T> x;
  gpu::Rows<T> y;
  int64_t width;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto gate = gpu::load<W>(x[r] + c), up = gpu::load<W>(x[r] + width + c);
    gpu::store(y[r] + c,
               gpu::Floats<W>::of([&](int i) { return gate[i] * sigmoid(gate[i]) * up[i]; }));
  }
};

template <class T>
struct SwigluGradColumns {
  gpu::Rows<const T> dy, x;
  gpu::Rows<T> dx;
  int64_t width;
  bool accumulate;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto gate = gpu::load<W>(x[r] + c), up = gpu::load<W>(x[r] + width + c);
    const auto d = gpu::load<W>(dy[r] + c);
    gpu::Floats<W> dgate, dup;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float s = sigmoid(gate[i]);
      dgate[i] = d[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s));
      dup[i] = d[i] * gate[i] * s;
    }
    gpu::write(dx[r] + c, dgate, accumulate);
    gpu::write(dx[r] + width + c, dup, accumulate);
  }
};

}  // namespace

void Swiglu::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const SwigluColumns<T> f{gpu::rows_of<const T>(x), gpu::rows_of<T>(y), y.cols()};
    gpu::for_each_wide(stream, y.rows(), y.cols(), gpu::are_wide(y.cols(), f.x, f.y), f);
  });
}

void SwigluGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const SwigluGradColumns<T> f{gpu::rows_of<const T>(dy), gpu::rows_of<const T>(x),
                                 gpu::rows_of<T>(dx.grad), dy.cols(), dx.accumulate};
    gpu::for_each_wide(stream, dy.rows(), dy.cols(), gpu::are_wide(dy.cols(), f.dy, f.x, f.dx), f);
  });
}

}  // namespace tephra::kernel

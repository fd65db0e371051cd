// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/scaled_add.h"

namespace tephra::kernel {
namespace {

template <class T>
struct ScaledAddColumns {
  gpu::Rows<const T> x, y;
  const T* scale;
  gpu::Rows<T> out;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto a = gpu::load<W>(x[r] + c), b = gpu::load<W>(y[r] + c), s = gpu::load<W>(scale + c);
    gpu::store(out[r] + c, gpu::Floats<W>::of([&](int i) { return fmaf(b[i], s[i], a[i]); }));
  }
};

template <class T>
struct ScaledAddGradColumns {
  gpu::Rows<const T> dout;
  const T* scale;
  gpu::Rows<T> dy;
  bool accumulate;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto d = gpu::load<W>(dout[r] + c), s = gpu::load<W>(scale + c);
    gpu::write(dy[r] + c, gpu::Floats<W>::of([&](int i) { return d[i] * s[i]; }), accumulate);
  }
};

template <class T>
struct ScaledAddTerm {
  gpu::Rows<const T> dout, y;

  __device__ float operator()(int64_t r, int64_t c) const {
    return float(dout[r][c]) * float(y[r][c]);
  }
};

}  // namespace

void ScaledAdd::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const ScaledAddColumns<T> f{gpu::rows_of<const T>(x), gpu::rows_of<const T>(y), scale.data<T>(),
                                gpu::rows_of<T>(out)};
    gpu::for_each_wide(stream, x.rows(), x.cols(),
                       gpu::are_wide(x.cols(), f.x, f.y, f.scale, f.out), f);
  });
}

void ScaledAddGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(dout.dtype(), [&]<class T>() {
    const auto d = gpu::rows_of<const T>(dout);
    if (dscale.grad) {
      gpu::sum_rows(stream, dout.rows(), dout.cols(), ScaledAddTerm<T>{d, gpu::rows_of<const T>(y)},
                    dscale.grad.data<float>(), dscale.accumulate);
    }
    if (dy.grad) {
      const ScaledAddGradColumns<T> f{d, scale.data<T>(), gpu::rows_of<T>(dy.grad), dy.accumulate};
      gpu::for_each_wide(stream, dout.rows(), dout.cols(),
                         gpu::are_wide(dout.cols(), f.dout, f.scale, f.dy), f);
    }
  });
}

}  // namespace tephra::kernel

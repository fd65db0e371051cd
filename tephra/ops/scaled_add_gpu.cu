// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/scaled_add.h"

namespace tephra::kernel {
namespace {

template <class T>
struct ScaledAddElement {
  gpu::Rows<const T> x, y;
  const T* scale;
  gpu::Rows<T> out;

  __device__ void operator()(int64_t r, int64_t c) const {
    out[r][c] = T(fmaf(float(y[r][c]), float(scale[c]), float(x[r][c])));
  }
};

template <class T>
struct ScaledAddGradElement {
  gpu::Rows<const T> dout;
  const T* scale;
  gpu::Rows<T> dy;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    gpu::write(dy[r] + c, float(dout[r][c]) * float(scale[c]), accumulate);
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
    gpu::for_each(stream, x.rows(), x.cols(),
                  ScaledAddElement<T>{gpu::rows_of<const T>(x), gpu::rows_of<const T>(y),
                                      scale.data<T>(), gpu::rows_of<T>(out)});
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
      gpu::for_each(
          stream, dout.rows(), dout.cols(),
          ScaledAddGradElement<T>{d, scale.data<T>(), gpu::rows_of<T>(dy.grad), dy.accumulate});
    }
  });
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/qk_mean.h"

namespace tephra::kernel {
namespace {

template <class T>
struct QkMeanElement {
  gpu::Rows<const T> z, y;
  gpu::Rows<T> out;
  int64_t nq, nk, dim;

  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t h = c / dim, d = c % dim, group = nq / nk;
    const T* row = z[r];
    float mean;
    if (h < nq) {
      mean = (float(row[c]) + float(row[(nq + h / group) * dim + d])) * 0.5f;
    } else {
      float sum = 0;
      for (int64_t i = 0; i < group; ++i) sum += float(row[((h - nq) * group + i) * dim + d]);
      mean = (sum / static_cast<float>(group) + float(row[c])) * 0.5f;
    }
    out[r][c] = T(float(y[r][c]) + mean);
  }
};

template <class T>
struct QkMeanGradElement {
  gpu::Rows<const T> dout;
  gpu::Rows<T> dz;
  int64_t nq, nk, dim;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t h = c / dim, d = c % dim, group = nq / nk;
    const T* row = dout[r];
    float sum = float(row[c]);
    if (h < nq) {
      sum += float(row[(nq + h / group) * dim + d]) / static_cast<float>(group);
    } else {
      for (int64_t i = 0; i < group; ++i) sum += float(row[((h - nq) * group + i) * dim + d]);
    }
    gpu::write(dz[r] + c, 0.5f * sum, accumulate);
  }
};

}  // namespace

void QkMean::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(z.dtype(), [&]<class T>() {
    gpu::for_each(stream, z.rows(), z.cols(),
                  QkMeanElement<T>{gpu::rows_of<const T>(z), gpu::rows_of<const T>(y),
                                   gpu::rows_of<T>(out), nq, nk, z.cols() / (nq + nk)});
  });
}

void QkMeanGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(dout.dtype(), [&]<class T>() {
    gpu::for_each(stream, dout.rows(), dout.cols(),
                  QkMeanGradElement<T>{gpu::rows_of<const T>(dout), gpu::rows_of<T>(dz.grad), nq,
                                       nk, dout.cols() / (nq + nk), dz.accumulate});
  });
}

}  // namespace tephra::kernel

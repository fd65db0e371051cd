// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/rms_norm.h"

namespace tephra::kernel {
namespace {

template <class T>
struct RmsNormRow {
  gpu::Rows<const T> x;
  const T* weight;
  int64_t width;
  float eps;
  gpu::Rows<T> y;
  float* rstd;

  __device__ void operator()(int64_t r) const {
    float sum = 0;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x)
      sum += float(x[r][c]) * float(x[r][c]);
    const float s = 1.0f / sqrtf(gpu::block_sum(sum) / static_cast<float>(width) + eps);
    if (threadIdx.x == 0) rstd[r] = s;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      y[r][c] = T(float(x[r][c]) * s * float(weight[c]));
    }
  }
};

// With s = rstd and m = mean(dy * w * x): dx = s * (w * dy - x * s^2 * m).
template <class T>
struct RmsNormGradRow {
  gpu::Rows<const T> dy, x;
  const T* weight;
  const float* rstd;
  int64_t width;
  gpu::Rows<T> dx;
  bool accumulate;

  __device__ void operator()(int64_t r) const {
    float sum = 0;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      sum += float(dy[r][c]) * float(weight[c]) * float(x[r][c]);
    }
    const float s = rstd[r];
    const float m = gpu::block_sum(sum) / static_cast<float>(width) * s * s;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      const float d = s * (float(weight[c]) * float(dy[r][c]) - float(x[r][c]) * m);
      gpu::write(dx[r] + c, d, accumulate);
    }
  }
};

template <class T>
struct RmsNormTerm {
  gpu::Rows<const T> dy, x;
  const float* rstd;

  __device__ float operator()(int64_t r, int64_t c) const {
    return float(dy[r][c]) * float(x[r][c]) * rstd[r];
  }
};

}  // namespace

void RmsNorm::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    gpu::for_each_row(
        stream, x.rows(),
        RmsNormRow<T>{gpu::rows_of<const T>(x), weight.data<T>(), x.cols(), static_cast<float>(eps),
                      gpu::rows_of<T>(y), rstd.data<float>()});
  });
}

void RmsNormGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const auto d = gpu::rows_of<const T>(dy), in = gpu::rows_of<const T>(x);
    if (dx) {
      gpu::for_each_row(stream, x.rows(),
                        RmsNormGradRow<T>{d, in, weight.data<T>(), rstd.data<float>(), x.cols(),
                                          gpu::rows_of<T>(dx), accumulate_dx});
    }
    if (dweight) {
      gpu::sum_rows(stream, x.rows(), x.cols(), RmsNormTerm<T>{d, in, rstd.data<float>()},
                    dweight.data<float>(), accumulate_dweight);
    }
  });
}

}  // namespace tephra::kernel

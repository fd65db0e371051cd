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

// Narrow rows: neighbouring threads hold one, eight columns each.
struct LanesPlace {
  int64_t r, c;
  bool inside, leads;

  __device__ LanesPlace(int64_t rows, int lanes) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    inside = i / lanes < rows;
    leads = inside && i % lanes == 0;
    r = inside ? i / lanes : 0;
    c = i % lanes * gpu::kWide;
  }
};

template <class T>
__global__ void rms_norm_narrow(RmsNormRow<T> a, int64_t rows, int lanes) {
  const LanesPlace at(rows, lanes);
  auto v = gpu::load<gpu::kWide>(a.x[at.r] + at.c);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) sum += v[i] * v[i];
  const float mean = gpu::lanes_sum(sum, lanes) / static_cast<float>(a.width);
  const float s = 1.0f / sqrtf(mean + a.eps);
  const auto w = gpu::load<gpu::kWide>(a.weight + at.c);
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) v[i] *= s * w[i];
  if (at.leads) a.rstd[at.r] = s;
  if (at.inside) gpu::store(a.y[at.r] + at.c, v);
}

template <class T>
__global__ void rms_norm_narrow_grad(RmsNormGradRow<T> a, int64_t rows, int lanes) {
  const LanesPlace at(rows, lanes);
  const auto v = gpu::load<gpu::kWide>(a.x[at.r] + at.c);
  const auto w = gpu::load<gpu::kWide>(a.weight + at.c);
  auto d = gpu::load<gpu::kWide>(a.dy[at.r] + at.c);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) sum += d[i] * w[i] * v[i];
  const float s = a.rstd[at.r];
  const float m = gpu::lanes_sum(sum, lanes) / static_cast<float>(a.width) * s * s;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) d[i] = s * (w[i] * d[i] - v[i] * m);
  if (at.inside) gpu::write(a.dx[at.r] + at.c, d, a.accumulate);
}

gpu::Grid narrow_grid(int64_t rows, int lanes) {
  return {.blocks = gpu::blocks_for(rows * lanes, gpu::kThreads), .threads = gpu::kThreads};
}

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
    const RmsNormRow<T> f{gpu::rows_of<const T>(x), weight.data<T>(),   x.cols(),
                          static_cast<float>(eps),  gpu::rows_of<T>(y), rstd.data<float>()};
    const int lanes = gpu::lanes_for(x.cols());
    if (lanes > 0 && gpu::are_wide(x.cols(), f.x, f.weight, f.y)) {
      stream.launch(rms_norm_narrow<T>, narrow_grid(x.rows(), lanes), f, x.rows(), lanes);
    } else {
      gpu::for_each_row(stream, x.rows(), f);
    }
  });
}

void RmsNormGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const auto d = gpu::rows_of<const T>(dy), in = gpu::rows_of<const T>(x);
    const RmsNormGradRow<T> f{
        d, in, weight.data<T>(), rstd.data<float>(), x.cols(), gpu::rows_of<T>(dx), accumulate_dx};
    const int lanes = gpu::lanes_for(x.cols());
    if (dx && lanes > 0 && gpu::are_wide(x.cols(), d, in, f.weight, f.dx)) {
      stream.launch(rms_norm_narrow_grad<T>, narrow_grid(x.rows(), lanes), f, x.rows(), lanes);
    } else if (dx) {
      gpu::for_each_row(stream, x.rows(), f);
    }
    if (dweight) {
      gpu::sum_rows(stream, x.rows(), x.cols(), RmsNormTerm<T>{d, in, rstd.data<float>()},
                    dweight.data<float>(), accumulate_dweight);
    }
  });
}

}  // namespace tephra::kernel

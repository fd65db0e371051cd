// SPDX-License-Identifier: Apache-2.0
// A head's elements are held by neighbouring threads of a wave, eight each, where its size allows;
// else it has a block of 64 threads: its wave, or two, sum in one fixed order.
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/qk_norm.h"

namespace tephra::kernel {
namespace {

constexpr int kHeadThreads = 64;
constexpr float kLengthEps = 1.1920929e-7f;

// What head h is multiplied by beside its length: 1 for queries.
template <class T>
__device__ float head_factor(const T* temp, Temperature form, int64_t h, int64_t nq) {
  if (h < nq || form == Temperature::none) return 1;
  const float t = float(temp[h - nq]);
  return form == Temperature::exp ? expf(t) : t;
}

template <class T>
__global__ void normalise_heads(gpu::Rows<const T> x, const T* temp, int64_t nq, int64_t dim,
                                Temperature form, gpu::Rows<T> y, gpu::Rows<float> length) {
  const int64_t r = blockIdx.x, h = blockIdx.y;
  const T* in = x[r] + h * dim;
  T* out = y[r] + h * dim;
  float sum = 0;
  for (int64_t c = threadIdx.x; c < dim; c += blockDim.x) sum += float(in[c]) * float(in[c]);
  const float size = sqrtf(gpu::block_sum(sum));
  if (threadIdx.x == 0) length[r][h] = size;
  const float scale =
      sqrtf(static_cast<float>(dim)) / fmaxf(size, kLengthEps) * head_factor(temp, form, h, nq);
  for (int64_t c = threadIdx.x; c < dim; c += blockDim.x) out[c] = T(float(in[c]) * scale);
}

// The formulas are in qk_norm_cpu.cpp. Writes each key's part of dtemp to `parts` [N, nk].
template <class T>
__global__ void normalise_heads_grad(gpu::Rows<const T> dy, gpu::Rows<const T> x, const T* temp,
                                     gpu::Rows<const float> length, int64_t nq, int64_t nk,
                                     int64_t dim, Temperature form, gpu::Rows<T> dx,
                                     bool accumulate, float* parts) {
  const int64_t r = blockIdx.x, h = blockIdx.y;
  const T *in = x[r] + h * dim, *d = dy[r] + h * dim;
  const float size = length[r][h], inverse = 1.0f / fmaxf(size, kLengthEps);
  const float root = sqrtf(static_cast<float>(dim)), factor = head_factor(temp, form, h, nq);
  float sum = 0;
  for (int64_t c = threadIdx.x; c < dim; c += blockDim.x) sum += float(d[c]) * float(in[c]);
  const float dot = gpu::block_sum(sum) * inverse;
  if (parts && h >= nq && threadIdx.x == 0) {
    parts[r * nk + h - nq] = root * dot * (form == Temperature::exp ? factor : 1.0f);
  }
  if (!dx) return;
  const float scale = root * inverse * factor, along = size > kLengthEps ? dot * inverse : 0.0f;
  T* out = dx[r] + h * dim;
  for (int64_t c = threadIdx.x; c < dim; c += blockDim.x) {
    gpu::write(out + c, (float(d[c]) - float(in[c]) * along) * scale, accumulate);
  }
}

// Which head of which row a thread has, and which eight of its columns.
struct HeadPlace {
  int64_t r, h, c;
  bool inside;

  __device__ HeadPlace(int64_t rows, int64_t heads, int lanes, int64_t dim) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t head = i / static_cast<uint32_t>(lanes);
    inside = head < rows * heads;
    r = inside ? head / static_cast<uint32_t>(heads) : 0;
    h = inside ? head % static_cast<uint32_t>(heads) : 0;
    c = h * dim + int64_t{i % static_cast<uint32_t>(lanes)} * gpu::kWide;
  }
  __device__ bool leads(int64_t dim) const { return inside && c == h * dim; }
};

template <class T>
__global__ void normalise_wide_heads(gpu::Rows<const T> x, const T* temp, int64_t rows, int64_t nq,
                                     int64_t nk, int lanes, Temperature form, gpu::Rows<T> y,
                                     gpu::Rows<float> length) {
  const int64_t dim = int64_t{lanes} * gpu::kWide;
  const HeadPlace at(rows, nq + nk, lanes, dim);
  auto v = gpu::load<gpu::kWide>(x[at.r] + at.c);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) sum += v[i] * v[i];
  const float size = sqrtf(gpu::lanes_sum(sum, lanes));
  const float scale =
      sqrtf(static_cast<float>(dim)) / fmaxf(size, kLengthEps) * head_factor(temp, form, at.h, nq);
  if (at.leads(dim)) length[at.r][at.h] = size;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) v[i] *= scale;
  if (at.inside) gpu::store(y[at.r] + at.c, v);
}

template <class T>
__global__ void normalise_wide_heads_grad(gpu::Rows<const T> dy, gpu::Rows<const T> x,
                                          const T* temp, gpu::Rows<const float> length,
                                          int64_t rows, int64_t nq, int64_t nk, int lanes,
                                          Temperature form, gpu::Rows<T> dx, bool accumulate,
                                          float* parts) {
  const int64_t dim = int64_t{lanes} * gpu::kWide;
  const HeadPlace at(rows, nq + nk, lanes, dim);
  const auto v = gpu::load<gpu::kWide>(x[at.r] + at.c);
  auto d = gpu::load<gpu::kWide>(dy[at.r] + at.c);
  const float size = length[at.r][at.h], inverse = 1.0f / fmaxf(size, kLengthEps);
  const float root = sqrtf(static_cast<float>(dim)), factor = head_factor(temp, form, at.h, nq);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) sum += d[i] * v[i];
  const float dot = gpu::lanes_sum(sum, lanes) * inverse;
  if (parts && at.h >= nq && at.leads(dim)) {
    parts[at.r * nk + at.h - nq] = root * dot * (form == Temperature::exp ? factor : 1.0f);
  }
  if (!dx || !at.inside) return;
  const float scale = root * inverse * factor, along = size > kLengthEps ? dot * inverse : 0.0f;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) d[i] = (d[i] - v[i] * along) * scale;
  gpu::write(dx[at.r] + at.c, d, accumulate);
}

// Threads in one row's heads are counted in 32 bits.
int head_lanes(const Tensor& x, int64_t heads, bool aligned) {
  const int lanes = gpu::lanes_for(x.cols() / heads);
  return aligned && x.numel() < int64_t{1} << 32 ? lanes : 0;
}

struct QkNormTerm {
  const float* parts;
  int64_t nk;

  __device__ float operator()(int64_t r, int64_t c) const { return parts[r * nk + c]; }
};

}  // namespace

void QkNorm::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const auto in = gpu::rows_of<const T>(x);
    const auto out = gpu::rows_of<T>(y);
    if (const int lanes = head_lanes(x, nq + nk, gpu::is_wide(in) && gpu::is_wide(out))) {
      stream.launch(normalise_wide_heads<T>,
                    {.blocks = gpu::blocks_for(x.numel() / gpu::kWide, gpu::kThreads),
                     .threads = gpu::kThreads},
                    in, gpu::data_of<const T>(temp), x.rows(), nq, nk, lanes, form, out,
                    gpu::rows_of<float>(length));
      return;
    }
    stream.launch(normalise_heads<T>,
                  {.blocks = x.rows(), .blocks_y = nq + nk, .threads = kHeadThreads},
                  gpu::rows_of<const T>(x), gpu::data_of<const T>(temp), nq, x.cols() / (nq + nk),
                  form, gpu::rows_of<T>(y), gpu::rows_of<float>(length));
  });
}

void QkNormGrad::on_gpu(gpu::Stream& stream) const {
  Tensor parts;
  if (dtemp.grad) parts = Tensor({x.rows(), nk}, DType::f32, x.device(), Purpose::workspace);
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const auto d = gpu::rows_of<const T>(dy), in = gpu::rows_of<const T>(x);
    const auto out = gpu::rows_of<T>(dx.grad);
    const bool aligned = gpu::is_wide(d) && gpu::is_wide(in) && gpu::is_wide(out);
    if (const int lanes = head_lanes(x, nq + nk, aligned)) {
      stream.launch(normalise_wide_heads_grad<T>,
                    {.blocks = gpu::blocks_for(x.numel() / gpu::kWide, gpu::kThreads),
                     .threads = gpu::kThreads},
                    d, in, gpu::data_of<const T>(temp), gpu::rows_of<const float>(length), x.rows(),
                    nq, nk, lanes, form, out, dx.accumulate, gpu::data_of<float>(parts));
      return;
    }
    stream.launch(normalise_heads_grad<T>,
                  {.blocks = x.rows(), .blocks_y = nq + nk, .threads = kHeadThreads},
                  gpu::rows_of<const T>(dy), gpu::rows_of<const T>(x), gpu::data_of<const T>(temp),
                  gpu::rows_of<const float>(length), nq, nk, x.cols() / (nq + nk), form,
                  gpu::rows_of<T>(dx.grad), dx.accumulate, gpu::data_of<float>(parts));
  });
  if (dtemp.grad) {
    gpu::sum_rows(stream, x.rows(), nk, QkNormTerm{gpu::data_of<const float>(parts), nk},
                  dtemp.grad.data<float>(), dtemp.accumulate);
  }
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/qk_mean.h"

namespace tephra::kernel {
namespace {

// The heads that a column's head shares its mean with: the key head of a query, the query heads of
// a key.
struct HeadGroup {
  int64_t first, count, dim;

  __device__ HeadGroup(int64_t c, int64_t nq, int64_t nk, int64_t head_dim) : dim(head_dim) {
    const int64_t h = c / dim, d = c % dim, group = nq / nk;
    const bool query = h < nq;
    first = (query ? nq + h / group : (h - nq) * group) * dim + d;
    count = query ? 1 : group;
  }

  template <int W, class T>
  __device__ gpu::Floats<W> sum(const T* row) const {
    gpu::Floats<W> s = gpu::load<W>(row + first);
    for (int64_t i = 1; i < count; ++i) {
      const auto v = gpu::load<W>(row + first + i * dim);
#pragma unroll
      for (int j = 0; j < W; ++j) s[j] += v[j];
    }
    return s;
  }
};

template <class T>
struct QkMeanColumns {
  gpu::Rows<const T> z, y;
  gpu::Rows<T> out;
  int64_t nq, nk, dim;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const HeadGroup others(c, nq, nk, dim);
    const auto sum = others.sum<W>(z[r]), own = gpu::load<W>(z[r] + c);
    const auto conv = gpu::load<W>(y[r] + c);
    const auto size = static_cast<float>(others.count);
    gpu::store(out[r] + c, gpu::Floats<W>::of(
                               [&](int i) { return conv[i] + (sum[i] / size + own[i]) * 0.5f; }));
  }
};

template <class T>
struct QkMeanGradColumns {
  gpu::Rows<const T> dout;
  gpu::Rows<T> dz;
  int64_t nq, nk, dim;
  bool accumulate;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const HeadGroup others(c, nq, nk, dim);
    const auto sum = others.sum<W>(dout[r]), own = gpu::load<W>(dout[r] + c);
    // A key's mean is over its queries, a query's takes the whole key.
    const float size = c < nq * dim ? static_cast<float>(nq / nk) : 1.0f;
    gpu::write(dz[r] + c,
               gpu::Floats<W>::of([&](int i) { return 0.5f * (own[i] + sum[i] / size); }),
               accumulate);
  }
};

}  // namespace

void QkMean::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(z.dtype(), [&]<class T>() {
    const QkMeanColumns<T> f{
        gpu::rows_of<const T>(z), gpu::rows_of<const T>(y), gpu::rows_of<T>(out), nq, nk,
        z.cols() / (nq + nk)};
    gpu::for_each_wide(stream, z.rows(), z.cols(), gpu::are_wide(f.dim, f.z, f.y, f.out), f);
  });
}

void QkMeanGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(dout.dtype(), [&]<class T>() {
    const QkMeanGradColumns<T> f{gpu::rows_of<const T>(dout),
                                 gpu::rows_of<T>(dz.grad),
                                 nq,
                                 nk,
                                 dout.cols() / (nq + nk),
                                 dz.accumulate};
    gpu::for_each_wide(stream, dout.rows(), dout.cols(), gpu::are_wide(f.dim, f.dout, f.dz), f);
  });
}

}  // namespace tephra::kernel

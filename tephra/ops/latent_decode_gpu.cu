// SPDX-License-Identifier: Apache-2.0
// A thread for each element: for the few rows of a decode step.
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/latent_decode.h"

namespace tephra::kernel {
namespace {

template <class T>
struct AbsorbElement {
  gpu::Rows<const T> q, expand;
  int64_t own, value, rest, latent;
  gpu::Rows<T> y;

  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t h = c / (latent + rest), at = c % (latent + rest);
    const T* head = q[r] + h * (own + rest);
    if (at >= latent) {
      y[r][c] = head[own + at - latent];
      return;
    }
    float sum = 0;
    for (int64_t o = 0; o < own; ++o) {
      sum = fmaf(float(head[o]), float(expand[h * (own + value) + o][at]), sum);
    }
    y[r][c] = T(sum);
  }
};

template <class T>
struct ExpandElement {
  gpu::Rows<const T> o, expand;
  int64_t own, value, latent;
  gpu::Rows<T> y;

  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t h = c / value;
    const T* head = o[r] + h * latent;
    const T* row = expand[h * (own + value) + own + c % value];
    float sum = 0;
    for (int64_t l = 0; l < latent; ++l) sum = fmaf(float(head[l]), float(row[l]), sum);
    y[r][c] = T(sum);
  }
};

}  // namespace

void AbsorbQueries::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(q.dtype(), [&]<class T>() {
    gpu::for_each(stream, y.rows(), y.cols(),
                  AbsorbElement<T>{gpu::rows_of<const T>(q), gpu::rows_of<const T>(expand), own_dim,
                                   expand.rows() / heads - own_dim, q.cols() / heads - own_dim,
                                   expand.cols(), gpu::rows_of<T>(y)});
  });
}

void ExpandValues::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(o.dtype(), [&]<class T>() {
    gpu::for_each(
        stream, y.rows(), y.cols(),
        ExpandElement<T>{gpu::rows_of<const T>(o), gpu::rows_of<const T>(expand), own_dim,
                         expand.rows() / heads - own_dim, expand.cols(), gpu::rows_of<T>(y)});
  });
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/latent_heads.h"

namespace tephra::kernel {
namespace {

template <class T>
struct LatentHeadsElement {
  gpu::Rows<const T> x, shared;
  int64_t own, rest, value;
  gpu::Rows<T> k, v;

  // Column c of a head's key, then of its value, for all heads.
  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t wide = own + rest + value, h = c / wide, at = c % wide;
    const T* head = x[r] + h * (own + value);
    if (at < own) {
      k[r][h * (own + rest) + at] = head[at];
    } else if (at < own + rest) {
      k[r][h * (own + rest) + at] = shared[r][at - own];
    } else {
      v[r][h * value + at - own - rest] = head[at - rest];
    }
  }
};

template <class T>
struct LatentHeadsGradElement {
  gpu::Rows<const T> dk, dv;
  int64_t own, rest, value;
  gpu::Rows<T> dx;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t h = c / (own + value), at = c % (own + value);
    float d = 0;
    if (at < own && dk) d = float(dk[r][h * (own + rest) + at]);
    if (at >= own && dv) d = float(dv[r][h * value + at - own]);
    gpu::write(dx[r] + c, d, accumulate);
  }
};

template <class T>
struct LatentSharedGradElement {
  gpu::Rows<const T> dk;
  int64_t heads, own, rest;
  gpu::Rows<T> dshared;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    float sum = 0;
    for (int64_t h = 0; dk && h < heads; ++h) sum += float(dk[r][h * (own + rest) + own + c]);
    gpu::write(dshared[r] + c, sum, accumulate);
  }
};

}  // namespace

void LatentHeads::on_gpu(gpu::Stream& stream) const {
  const int64_t value_dim = x.cols() / heads - own_dim;
  gpu::visit_float(x.dtype(), [&]<class T>() {
    gpu::for_each(
        stream, x.rows(), heads * (own_dim + shared.cols() + value_dim),
        LatentHeadsElement<T>{gpu::rows_of<const T>(x), gpu::rows_of<const T>(shared), own_dim,
                              shared.cols(), value_dim, gpu::rows_of<T>(k), gpu::rows_of<T>(v)});
  });
}

void LatentHeadsGrad::on_gpu(gpu::Stream& stream) const {
  const Tensor& given = dk ? dk : dv;
  gpu::visit_float(given.dtype(), [&]<class T>() {
    const auto k = gpu::rows_of<const T>(dk), v = gpu::rows_of<const T>(dv);
    if (dx.grad) {
      gpu::for_each(stream, given.rows(), heads * (own_dim + value_dim),
                    LatentHeadsGradElement<T>{k, v, own_dim, shared_dim, value_dim,
                                              gpu::rows_of<T>(dx.grad), dx.accumulate});
    }
    if (dshared.grad) {
      gpu::for_each(stream, given.rows(), shared_dim,
                    LatentSharedGradElement<T>{k, heads, own_dim, shared_dim,
                                               gpu::rows_of<T>(dshared.grad), dshared.accumulate});
    }
  });
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/merge_attention.h"

namespace tephra::kernel {
namespace {

// The weights of two parts, from their log-sum-exps. A part that saw nothing counts for nothing.
struct MergeWeights {
  float a = 0, b = 0, lse = -INFINITY;

  __device__ MergeWeights(float lse_a, float lse_b) {
    const float largest = fmaxf(lse_a, lse_b);
    if (largest == -INFINITY) return;
    const float ea = expf(lse_a - largest), eb = expf(lse_b - largest);
    lse = largest + logf(ea + eb);
    a = ea / (ea + eb);
    b = eb / (ea + eb);
  }
};

template <class T>
struct MergeElement {
  gpu::Rows<const T> oa, ob;
  gpu::Rows<const float> lse_a, lse_b;
  int64_t dim;
  gpu::Rows<T> o;
  gpu::Rows<float> lse;

  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t h = c / dim;
    const MergeWeights w(lse_a[r][h], lse_b[r][h]);
    o[r][c] = T(w.a * float(oa[r][c]) + w.b * float(ob[r][c]));
    if (c % dim == 0) lse[r][h] = w.lse;
  }
};

template <class T>
struct MergeGradHead {
  gpu::Rows<const T> d_o;
  gpu::Rows<const float> dlse;
  gpu::Rows<const T> oa, ob;
  gpu::Rows<const float> lse_a, lse_b;
  int64_t heads, dim;
  gpu::Rows<T> doa, dob;
  gpu::Rows<float> dlse_a, dlse_b;
  bool accumulate_oa, accumulate_ob, accumulate_lse_a, accumulate_lse_b;

  __device__ void operator()(int64_t i) const {
    const int64_t r = i / heads, h = i % heads;
    const MergeWeights w(lse_a[r][h], lse_b[r][h]);
    float dot = 0;
    for (int64_t c = h * dim; c < (h + 1) * dim; ++c) {
      const float d = d_o ? float(d_o[r][c]) : 0.0f;
      dot += d * (float(oa[r][c]) - float(ob[r][c]));
      if (doa) gpu::write(doa[r] + c, w.a * d, accumulate_oa);
      if (dob) gpu::write(dob[r] + c, w.b * d, accumulate_ob);
    }
    const float d = dlse ? dlse[r][h] : 0.0f;
    if (dlse_a) {
      gpu::write(dlse_a[r] + h, w.a == 0 ? 0.0f : w.a * (d + w.b * dot), accumulate_lse_a);
    }
    if (dlse_b) {
      gpu::write(dlse_b[r] + h, w.b == 0 ? 0.0f : w.b * (d - w.a * dot), accumulate_lse_b);
    }
  }
};

}  // namespace

void MergeAttention::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(o.dtype(), [&]<class T>() {
    gpu::for_each(
        stream, o.rows(), o.cols(),
        MergeElement<T>{gpu::rows_of<const T>(a.o), gpu::rows_of<const T>(b.o),
                        gpu::rows_of<const float>(a.lse), gpu::rows_of<const float>(b.lse),
                        o.cols() / lse.cols(), gpu::rows_of<T>(o), gpu::rows_of<float>(lse)});
  });
}

void MergeAttentionGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t heads = a.lse.cols();
  gpu::visit_float(a.o.dtype(), [&]<class T>() {
    gpu::for_each_index(
        stream, a.lse.numel(),
        MergeGradHead<T>{gpu::rows_of<const T>(d_o), gpu::rows_of<const float>(dlse),
                         gpu::rows_of<const T>(a.o), gpu::rows_of<const T>(b.o),
                         gpu::rows_of<const float>(a.lse), gpu::rows_of<const float>(b.lse), heads,
                         a.o.cols() / heads, gpu::rows_of<T>(doa.grad), gpu::rows_of<T>(dob.grad),
                         gpu::rows_of<float>(dlse_a.grad), gpu::rows_of<float>(dlse_b.grad),
                         doa.accumulate, dob.accumulate, dlse_a.accumulate, dlse_b.accumulate});
  });
}

}  // namespace tephra::kernel

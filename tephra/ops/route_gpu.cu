// SPDX-License-Identifier: Apache-2.0
// A thread for each token: there are few classes.
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/route.h"

namespace tephra::kernel {
namespace {

// The softmax of a row without its division: exp(logit - shift) / sum.
template <class T>
struct RowSoftmax {
  const T* logits;
  float shift, sum;

  __device__ RowSoftmax(const T* row, int64_t classes) : logits(row), shift(-INFINITY), sum(0) {
    for (int64_t c = 0; c < classes; ++c) shift = fmaxf(shift, float(row[c]));
    for (int64_t c = 0; c < classes; ++c) sum += expf(float(row[c]) - shift);
  }
  __device__ float at(int64_t c) const { return expf(float(logits[c]) - shift) / sum; }
};

template <class T>
struct RouteToken {
  gpu::Rows<const T> logits;
  const float* biases;
  int64_t classes;
  float* weight;
  int32_t* expert;

  __device__ void operator()(int64_t r) const {
    const RowSoftmax<T> p(logits[r], classes);
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (p.at(c) + biases[c] > p.at(best) + biases[best]) best = c;
    }
    weight[r] = p.at(best);
    expert[r] = static_cast<int32_t>(best);
  }
};

template <class T>
struct RouteGradToken {
  const float* dweight;
  gpu::Rows<const T> logits;
  const int32_t* expert;
  int64_t classes;
  gpu::Rows<T> dlogits;
  bool accumulate;

  __device__ void operator()(int64_t r) const {
    const RowSoftmax<T> p(logits[r], classes);
    const int64_t e = expert[r];
    const float d = dweight[r] * p.at(e);
    for (int64_t c = 0; c < classes; ++c) {
      gpu::write(dlogits[r] + c, d * ((c == e ? 1.0f : 0.0f) - p.at(c)), accumulate);
    }
  }
};

}  // namespace

void Route::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(logits.dtype(), [&]<class T>() {
    gpu::for_each_index(stream, logits.rows(),
                        RouteToken<T>{gpu::rows_of<const T>(logits), biases.data<float>(),
                                      logits.cols(), weight.data<float>(), expert.data<int32_t>()});
  });
}

void RouteGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(logits.dtype(), [&]<class T>() {
    gpu::for_each_index(stream, logits.rows(),
                        RouteGradToken<T>{dweight.data<float>(), gpu::rows_of<const T>(logits),
                                          expert.data<int32_t>(), logits.cols(),
                                          gpu::rows_of<T>(dlogits), accumulate});
  });
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
// The formulas are in merge_norm_cpu.cpp. The backward pass computes the merged stream again.
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/merge_norm.h"

namespace tephra::kernel {
namespace {

template <class T>
struct MergeInputs {
  gpu::Rows<const T> x;
  gpu::Rows<const float> stream;  // null where the stream begins
  const T *hidden_scale, *hidden_bias, *residual_scale, *residual_bias;

  __device__ float merged(int64_t r, int64_t c) const {
    const float m = (float(x[r][c]) + float(hidden_bias[c])) * float(hidden_scale[c]);
    if (!stream) return m;
    return m + (stream[r][c] + float(residual_bias[c])) * float(residual_scale[c]);
  }
};

template <class T>
MergeInputs<T> merge_inputs(const Tensor& x, const Tensor& stream, const ResidualScale& s) {
  return {gpu::rows_of<const T>(x),
          gpu::rows_of<const float>(stream),
          gpu::data_of<const T>(s.hidden_scale),
          gpu::data_of<const T>(s.hidden_bias),
          gpu::data_of<const T>(s.residual_scale),
          gpu::data_of<const T>(s.residual_bias)};
}

template <class T>
struct MergeNormRow {
  MergeInputs<T> in;
  const T* weight;
  int64_t width;
  float eps;
  gpu::Rows<float> merged;
  gpu::Rows<T> normed;
  float* rstd;

  __device__ void operator()(int64_t r) const {
    float sum = 0;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      const float m = in.merged(r, c);
      merged[r][c] = m;
      sum += m * m;
    }
    const float s = 1.0f / sqrtf(gpu::block_sum(sum) / static_cast<float>(width) + eps);
    if (threadIdx.x == 0) rstd[r] = s;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      normed[r][c] = T(merged[r][c] * s * float(weight[c]));
    }
  }
};

// The gradient of the merged stream: what came to it, and what came through the norm.
template <class T>
struct MergedGradient {
  MergeInputs<T> in;
  gpu::Rows<const float> dmerged;  // null when it is zero
  gpu::Rows<const T> dnormed;      // null when it is zero
  const T* weight;
  const float* rstd;
  float* mean;  // [N]: of w * dnormed * merged, times rstd^2

  __device__ float at(int64_t r, int64_t c) const {
    float d = dmerged ? dmerged[r][c] : 0.0f;
    if (dnormed) {
      d += rstd[r] * (float(weight[c]) * float(dnormed[r][c]) - in.merged(r, c) * mean[r]);
    }
    return d;
  }
};

template <class T>
struct MergeNormGradRow {
  MergedGradient<T> d;
  int64_t width;
  gpu::Rows<T> dx;
  bool accumulate_dx;
  gpu::Rows<float> dstream;
  bool accumulate_dstream;

  __device__ void operator()(int64_t r) const {
    if (d.dnormed) {
      float sum = 0;
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
        sum += float(d.dnormed[r][c]) * float(d.weight[c]) * d.in.merged(r, c);
      }
      const float s = d.rstd[r];
      const float m = gpu::block_sum(sum) / static_cast<float>(width) * s * s;
      if (threadIdx.x == 0) d.mean[r] = m;
      __syncthreads();
    }
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      const float g = d.at(r, c);
      if (dx) gpu::write(dx[r] + c, g * float(d.in.hidden_scale[c]), accumulate_dx);
      if (dstream)
        gpu::write(dstream[r] + c, g * float(d.in.residual_scale[c]), accumulate_dstream);
    }
  }
};

enum class MergeVector { hidden_scale, hidden_bias, residual_scale, residual_bias, weight };

template <class T, MergeVector kWhich>
struct MergeNormTerm {
  MergedGradient<T> d;

  __device__ float operator()(int64_t r, int64_t c) const {
    const MergeInputs<T>& in = d.in;
    if constexpr (kWhich == MergeVector::weight) {
      return d.dnormed ? float(d.dnormed[r][c]) * in.merged(r, c) * d.rstd[r] : 0.0f;
    } else if constexpr (kWhich == MergeVector::hidden_scale) {
      return d.at(r, c) * (float(in.x[r][c]) + float(in.hidden_bias[c]));
    } else if constexpr (kWhich == MergeVector::hidden_bias) {
      return d.at(r, c) * float(in.hidden_scale[c]);
    } else if constexpr (kWhich == MergeVector::residual_scale) {
      return d.at(r, c) * (in.stream[r][c] + float(in.residual_bias[c]));
    } else {
      return d.at(r, c) * float(in.residual_scale[c]);
    }
  }
};

template <class T, MergeVector kWhich>
void sum_merge_vector(gpu::Stream& stream, const MergedGradient<T>& d, const Shape& shape,
                      const GradTarget& target) {
  if (!target.grad) return;
  gpu::sum_rows(stream, shape[0], shape[1], MergeNormTerm<T, kWhich>{d},
                target.grad.template data<float>(), target.accumulate);
}

}  // namespace

void MergeNorm::on_gpu(gpu::Stream& gpu_stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    gpu::for_each_row(gpu_stream, x.rows(),
                      MergeNormRow<T>{merge_inputs<T>(x, stream, scale), weight.data<T>(), x.cols(),
                                      static_cast<float>(eps), gpu::rows_of<float>(merged),
                                      gpu::rows_of<T>(normed), rstd.data<float>()});
  });
}

void MergeNormGrad::on_gpu(gpu::Stream& gpu_stream) const {
  const Tensor mean({x.rows()}, DType::f32, x.device(), Purpose::workspace);
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const MergedGradient<T> d{merge_inputs<T>(x, stream, scale),
                              gpu::rows_of<const float>(dmerged),
                              gpu::rows_of<const T>(dnormed),
                              weight.data<T>(),
                              rstd.data<float>(),
                              mean.data<float>()};
    gpu::for_each_row(gpu_stream, x.rows(),
                      MergeNormGradRow<T>{d, x.cols(), gpu::rows_of<T>(dx.grad), dx.accumulate,
                                          gpu::rows_of<float>(dstream.grad), dstream.accumulate});
    const Shape& shape = x.shape();
    sum_merge_vector<T, MergeVector::hidden_scale>(gpu_stream, d, shape, dhidden_scale);
    sum_merge_vector<T, MergeVector::hidden_bias>(gpu_stream, d, shape, dhidden_bias);
    sum_merge_vector<T, MergeVector::residual_scale>(gpu_stream, d, shape, dresidual_scale);
    sum_merge_vector<T, MergeVector::residual_bias>(gpu_stream, d, shape, dresidual_bias);
    sum_merge_vector<T, MergeVector::weight>(gpu_stream, d, shape, dweight);
  });
}

}  // namespace tephra::kernel

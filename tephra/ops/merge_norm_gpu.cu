// SPDX-License-Identifier: Apache-2.0
// The formulas are in merge_norm_cpu.cpp. The backward pass computes the merged stream again. Rows
// of up to 8,192 columns that are aligned for it stay in a block's registers: each input is read
// once, and the gradients of the vectors are summed on the way. Others take the plain form.
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

// --- rows in registers --------------------------------------------------------------------------

constexpr int kWide = gpu::kWide;
using MergeWide = gpu::Floats<kWide>;

// What a thread has of the merge's vectors: kWide columns from `c` on.
template <class T>
struct MergeColumns {
  MergeWide hidden_scale, hidden_bias, residual_scale, residual_bias, weight;

  __device__ MergeColumns(const MergeInputs<T>& in, const T* norm, int64_t c)
      : hidden_scale(gpu::load<kWide>(in.hidden_scale + c)),
        hidden_bias(gpu::load<kWide>(in.hidden_bias + c)),
        weight(gpu::load<kWide>(norm + c)) {
    if (!in.stream) return;
    residual_scale = gpu::load<kWide>(in.residual_scale + c);
    residual_bias = gpu::load<kWide>(in.residual_bias + c);
  }

  template <class X>
  __device__ float merged(const X& x, const MergeWide& stream, int i) const {
    return (float(x[i]) + hidden_bias[i]) * hidden_scale[i] +
           (stream[i] + residual_bias[i]) * residual_scale[i];
  }
};

// kUnits times kWide columns a thread.
template <class T, int kUnits>
__global__ void __launch_bounds__(gpu::kThreads) merge_norm_rows(MergeNormRow<T> a) {
  const int64_t r = blockIdx.x;
  MergeWide m[kUnits];
  float sum = 0;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int64_t c = (u * gpu::kThreads + threadIdx.x) * int64_t{kWide};
    if (c >= a.width) continue;
    const MergeWide x = gpu::load<kWide>(a.in.x[r] + c);
    const MergeWide stream = a.in.stream ? gpu::load<kWide>(a.in.stream[r] + c) : MergeWide{};
    const MergeColumns<T> vectors(a.in, a.weight, c);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      m[u][i] = vectors.merged(x, stream, i);
      sum += m[u][i] * m[u][i];
    }
    gpu::store(a.merged[r] + c, m[u]);
  }
  const float s = 1.0f / sqrtf(gpu::block_sum(sum) / static_cast<float>(a.width) + a.eps);
  if (threadIdx.x == 0) a.rstd[r] = s;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int64_t c = (u * gpu::kThreads + threadIdx.x) * int64_t{kWide};
    if (c >= a.width) continue;
    const MergeWide w = gpu::load<kWide>(a.weight + c);
    gpu::store(a.normed[r] + c, MergeWide::of([&](int i) { return m[u][i] * s * w[i]; }));
  }
}

// Sums over a part's rows of the merged stream's gradient g, and of its products.
enum MergeSum { kSumG, kSumGx, kSumGStream, kSumNormed, kMergeSums };

// The columns that a thread has of a row of the backward pass.
template <class T, int kUnits>
struct MergeGradRow {
  gpu::Packed<kWide, T> x[kUnits], dnormed[kUnits];
  MergeWide stream[kUnits], g[kUnits];  // g: the gradient that came to the merged stream

  __device__ void fetch(const MergedGradient<T>& d, int64_t width, int64_t r) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int64_t c = (u * gpu::kThreads + threadIdx.x) * int64_t{kWide};
      if (c >= width) continue;
      x[u] = gpu::load_packed<kWide>(d.in.x[r] + c);
      dnormed[u] = d.dnormed ? gpu::load_packed<kWide>(d.dnormed[r] + c) : gpu::Packed<kWide, T>{};
      if (d.in.stream) stream[u] = gpu::load<kWide>(d.in.stream[r] + c);
      g[u] = d.dmerged ? gpu::load<kWide>(d.dmerged[r] + c) : MergeWide{};
    }
  }
};

// A block has a part of the rows, and reads the next one while it works on one. parts
// [gridDim.x][kMergeSums][width], or null.
template <class T, int kUnits>
__global__ void __launch_bounds__(gpu::kThreads, kUnits == 1 ? 2 : 1)
    merge_norm_grad_rows(MergeNormGradRow<T> a, int64_t rows, int64_t rows_each, float* parts) {
  const MergedGradient<T>& d = a.d;
  MergeWide sums[kMergeSums][kUnits];
  const int64_t begin = blockIdx.x * rows_each;
  const int64_t end = begin + rows_each < rows ? begin + rows_each : rows;
  MergeGradRow<T, kUnits> row, next;
  next.fetch(d, a.width, begin);
  for (int64_t r = begin; r < end; ++r) {
    row = next;
    if (r + 1 < end) next.fetch(d, a.width, r + 1);
    const float s = d.rstd[r];
    float dot = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int64_t c = (u * gpu::kThreads + threadIdx.x) * int64_t{kWide};
      if (c >= a.width) continue;
      const MergeColumns<T> vectors(d.in, d.weight, c);
#pragma unroll
      for (int i = 0; i < kWide; ++i) {
        dot += float(row.dnormed[u][i]) * vectors.weight[i] *
               vectors.merged(row.x[u], row.stream[u], i);
      }
    }
    const float mean = gpu::block_sum(dot) / static_cast<float>(a.width) * s * s;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int64_t c = (u * gpu::kThreads + threadIdx.x) * int64_t{kWide};
      if (c >= a.width) continue;
      const MergeColumns<T> vectors(d.in, d.weight, c);
      MergeWide dx, dstream;
#pragma unroll
      for (int i = 0; i < kWide; ++i) {
        const float m = vectors.merged(row.x[u], row.stream[u], i);
        const float dn = float(row.dnormed[u][i]);
        const float g = row.g[u][i] + s * (vectors.weight[i] * dn - m * mean);
        dx[i] = g * vectors.hidden_scale[i];
        dstream[i] = g * vectors.residual_scale[i];
        sums[kSumG][u][i] += g;
        sums[kSumGx][u][i] += g * (float(row.x[u][i]) + vectors.hidden_bias[i]);
        sums[kSumGStream][u][i] += g * (row.stream[u][i] + vectors.residual_bias[i]);
        sums[kSumNormed][u][i] += dn * m * s;
      }
      if (a.dx) gpu::write(a.dx[r] + c, dx, a.accumulate_dx);
      if (a.dstream) gpu::write(a.dstream[r] + c, dstream, a.accumulate_dstream);
    }
  }
  if (!parts) return;
#pragma unroll
  for (int k = 0; k < kMergeSums; ++k) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int64_t c = (u * gpu::kThreads + threadIdx.x) * int64_t{kWide};
      if (c < a.width) gpu::store(parts + (blockIdx.x * kMergeSums + k) * a.width + c, sums[k][u]);
    }
  }
}

// Where the sums of the parts go: of each vector, with the scale that a bias's gradient still
// lacks.
template <class T>
struct MergeVectorGrad {
  MergeSum which;
  const T* factor;  // null: none
  float* out;       // null when it is not wanted
  bool accumulate;
};
constexpr int kMergeVectors = 5;

template <class T>
struct MergeVectorGrads {
  MergeVectorGrad<T> at[kMergeVectors];
};

// A vector for each blockIdx.y; kSumGroups stretches of parts, then these in order.
template <class T>
__global__ void sum_merge_vectors(const float* parts, int64_t count, int64_t width,
                                  MergeVectorGrads<T> grads) {
  using gpu::kSumColumns, gpu::kSumGroups;
  __shared__ float sums[kSumGroups][kSumColumns];
  const MergeVectorGrad<T> target = grads.at[blockIdx.y];
  if (!target.out) return;
  const int group = static_cast<int>(threadIdx.x) / kSumColumns;
  const int column = static_cast<int>(threadIdx.x) % kSumColumns;
  const int64_t c = int64_t{blockIdx.x} * kSumColumns + column;
  const int64_t each = (count + kSumGroups - 1) / kSumGroups;
  const int64_t end = (group + 1) * each < count ? (group + 1) * each : count;
  float sum = 0;
  if (c < width) {
#pragma unroll 8
    for (int64_t i = group * each; i < end; ++i) {
      sum += parts[(i * kMergeSums + target.which) * width + c];
    }
  }
  sums[group][column] = sum;
  __syncthreads();
  if (group > 0 || c >= width) return;
  for (int i = 1; i < kSumGroups; ++i) sum += sums[i][column];
  gpu::write(target.out + c, target.factor ? sum * float(target.factor[c]) : sum,
             target.accumulate);
}

// Calls f.operator()<kUnits>() with enough of them; false when no number is.
template <class F>
bool visit_units(int64_t width, const F& f) {
  const int64_t units = gpu::blocks_for(width, int64_t{gpu::kThreads} * kWide);
  if (units == 1) return f.template operator()<1>(), true;
  if (units == 2) return f.template operator()<2>(), true;
  if (units <= 4) return f.template operator()<4>(), true;
  return false;
}

template <class T>
bool is_wide_merge(const MergeInputs<T>& in, const T* weight, int64_t width) {
  return gpu::are_wide(width, in.x, in.stream, in.hidden_scale, in.hidden_bias, in.residual_scale,
                       in.residual_bias, weight);
}

template <class T>
void sum_merge_parts(gpu::Stream& stream, const MergeNormGrad& k, const float* parts,
                     int64_t count) {
  const int64_t width = k.x.cols();
  const auto to = [](MergeSum which, const Tensor& factor, const GradTarget& target) {
    return MergeVectorGrad<T>{which, gpu::data_of<const T>(factor),
                              gpu::data_of<float>(target.grad), target.accumulate};
  };
  const MergeVectorGrads<T> grads{
      {to(kSumGx, {}, k.dhidden_scale), to(kSumG, k.scale.hidden_scale, k.dhidden_bias),
       to(kSumGStream, {}, k.dresidual_scale), to(kSumG, k.scale.residual_scale, k.dresidual_bias),
       to(kSumNormed, {}, k.dweight)}};
  stream.launch(sum_merge_vectors<T>,
                {.blocks = gpu::blocks_for(width, gpu::kSumColumns),
                 .blocks_y = kMergeVectors,
                 .threads = gpu::kThreads},
                parts, count, width, grads);
}

// False when the rows are not for it.
template <class T>
bool merge_norm_grad_fused(gpu::Stream& stream, const MergeNormGrad& k,
                           const MergeNormGradRow<T>& f) {
  if (!is_wide_merge(f.d.in, f.d.weight, f.width) ||
      !gpu::are_wide(f.width, f.d.dmerged, f.d.dnormed, f.dx, f.dstream)) {
    return false;
  }
  const gpu::RowParts cut(k.x.rows());
  Tensor parts;
  const bool launched = visit_units(f.width, [&]<int kUnits>() {
    if (k.wants_vectors()) {
      parts =
          Tensor({cut.count, kMergeSums * f.width}, DType::f32, k.x.device(), Purpose::workspace);
    }
    stream.launch(merge_norm_grad_rows<T, kUnits>, {.blocks = cut.count, .threads = gpu::kThreads},
                  f, k.x.rows(), cut.rows_each, gpu::data_of<float>(parts));
  });
  if (launched && parts) sum_merge_parts<T>(stream, k, parts.data<float>(), cut.count);
  return launched;
}

// --- the plain form's sums
// ------------------------------------------------------------------------

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
    const MergeNormRow<T> f{merge_inputs<T>(x, stream, scale),
                            weight.data<T>(),
                            x.cols(),
                            static_cast<float>(eps),
                            gpu::rows_of<float>(merged),
                            gpu::rows_of<T>(normed),
                            rstd.data<float>()};
    const bool wide =
        is_wide_merge(f.in, f.weight, f.width) && gpu::are_wide(f.width, f.merged, f.normed);
    const bool launched = wide && visit_units(f.width, [&]<int kUnits>() {
                            gpu_stream.launch(merge_norm_rows<T, kUnits>,
                                              {.blocks = x.rows(), .threads = gpu::kThreads}, f);
                          });
    if (!launched) gpu::for_each_row(gpu_stream, x.rows(), f);
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
    const MergeNormGradRow<T> f{d,
                                x.cols(),
                                gpu::rows_of<T>(dx.grad),
                                dx.accumulate,
                                gpu::rows_of<float>(dstream.grad),
                                dstream.accumulate};
    if (merge_norm_grad_fused<T>(gpu_stream, *this, f)) return;
    gpu::for_each_row(gpu_stream, x.rows(), f);
    const Shape& shape = x.shape();
    sum_merge_vector<T, MergeVector::hidden_scale>(gpu_stream, d, shape, dhidden_scale);
    sum_merge_vector<T, MergeVector::hidden_bias>(gpu_stream, d, shape, dhidden_bias);
    sum_merge_vector<T, MergeVector::residual_scale>(gpu_stream, d, shape, dresidual_scale);
    sum_merge_vector<T, MergeVector::residual_bias>(gpu_stream, d, shape, dresidual_bias);
    sum_merge_vector<T, MergeVector::weight>(gpu_stream, d, shape, dweight);
  });
}

}  // namespace tephra::kernel

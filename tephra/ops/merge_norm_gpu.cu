// SPDX-License-Identifier: Apache-2.0
// The formulas are in merge_norm_cpu.cpp. The backward pass computes the merged stream again. Rows
// of up to 8,192 columns that are aligned for it stay in a block's registers: each input is read
// once, and the gradients of the vectors are summed on the way; rows that experts have left in
// their own order are read, and their gradients written, where they lie. Others take the plain
// form.
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/merge_norm.h"
#include "tephra/ops/merge_norm_steps.h"

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

// Of a token: where experts have left its row of x, and what it is to be multiplied by.
struct RowRoute {
  int32_t place;
  float weight;
};

// All null where x is in the order of tokens.
struct RowRoutes {
  const int32_t *places, *routed;
  const float* weights;
  float* dweights;  // null when they are not wanted
  bool accumulate_dweights;

  // Nothing is computed here: a caller that asks ahead does not wait.
  template <bool kRouted>
  __device__ RowRoute at(int64_t r) const {
    if constexpr (!kRouted) return {static_cast<int32_t>(r), 1.0f};
    return {places[r], weights[r]};
  }
  // Places from here on are those of skipped tokens: zeros, whatever lies there.
  template <bool kRouted>
  __device__ int32_t end() const {
    if constexpr (!kRouted) return INT32_MAX;
    return *routed;
  }
};

RowRoutes row_routes(const Routes& routes, const GradTarget& dweights) {
  if (!routes) return {};
  const Tensor& offsets = routes.plan.offsets;
  return {routes.plan.place_N.data<int32_t>(), offsets.data<int32_t>() + offsets.numel() - 1,
          routes.weight_N.data<float>(), gpu::data_of<float>(dweights.grad), dweights.accumulate};
}

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
template <class T, int kUnits, bool kRouted>
__global__ void __launch_bounds__(gpu::kThreads)
    merge_norm_rows(MergeNormRow<T> a, RowRoutes routes) {
  const int64_t r = blockIdx.x;
  const RowRoute route = routes.at<kRouted>(r);
  const bool has_row = route.place < routes.end<kRouted>();
  MergeWide m[kUnits];
  float sum = 0;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int64_t c = (u * gpu::kThreads + threadIdx.x) * int64_t{kWide};
    if (c >= a.width) continue;
    MergeWide x = has_row ? gpu::load<kWide>(a.in.x[route.place] + c) : MergeWide{};
    const MergeWide stream = a.in.stream ? gpu::load<kWide>(a.in.stream[r] + c) : MergeWide{};
    const MergeColumns<T> vectors(a.in, a.weight, c);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      if constexpr (kRouted) x[i] = float(T(x[i] * route.weight));  // as combine_rows stores it
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

// Backward, a thread has kGradColumns at a time: 16 bytes of f32, so that neighbours fill whole
// sectors of every matrix. They are kept in the words they came in: numbers of 16 bits would be
// taken out of them, and waited for, where they are loaded, not where they are used.
constexpr int kGradColumns = 4;

template <class T>
struct HeldColumns {
  struct alignas(kGradColumns * sizeof(T)) Words {
    uint32_t at[kGradColumns * sizeof(T) / 4];
  };
  Words words = {};

  __device__ static HeldColumns of(const float (&v)[kGradColumns]) {
    HeldColumns held;
#pragma unroll
    for (int i = 0; i < kGradColumns; i += 4 / sizeof(T)) {
      held.words.at[i * sizeof(T) / 4] =
          sizeof(T) == 4 ? __builtin_bit_cast(uint32_t, v[i]) : gpu::bf16_pair(v[i], v[i + 1]);
    }
    return held;
  }
  __device__ void load(const T* from) { words = *reinterpret_cast<const Words*>(from); }
  __device__ float operator[](int i) const {
    if constexpr (sizeof(T) == 4) return __builtin_bit_cast(float, words.at[i]);
    const uint32_t word = words.at[i * sizeof(T) / 4];
    return __builtin_bit_cast(float, i % 2 == 0 ? word << 16 : word & 0xffff0000u);
  }
  __device__ HeldColumns times(float factor) const {
    float v[kGradColumns];
#pragma unroll
    for (int i = 0; i < kGradColumns; ++i) v[i] = (*this)[i] * factor;
    return of(v);
  }
};

__device__ void write_columns(float* to, const float (&v)[kGradColumns], bool accumulate) {
  auto* four = reinterpret_cast<float4*>(to);
  const float4 before = accumulate ? *four : float4{0, 0, 0, 0};
  *four = {before.x + v[0], before.y + v[1], before.z + v[2], before.w + v[3]};
}

__device__ void write_columns(bf16* to, const float (&v)[kGradColumns], bool accumulate) {
  HeldColumns<bf16> before;
  if (accumulate) before.load(to);
  *reinterpret_cast<HeldColumns<bf16>::Words*>(to) = {
      {gpu::bf16_pair(before[0] + v[0], before[1] + v[1]),
       gpu::bf16_pair(before[2] + v[2], before[3] + v[3])}};
}

// The merge's vectors at a thread's columns.
template <class T>
struct MergeGradColumns {
  HeldColumns<T> hidden_scale, hidden_bias, residual_scale, residual_bias, weight;

  __device__ MergeGradColumns(const MergedGradient<T>& d, int64_t c) {
    hidden_scale.load(d.in.hidden_scale + c);
    hidden_bias.load(d.in.hidden_bias + c);
    weight.load(d.weight + c);
    if (!d.in.stream) return;
    residual_scale.load(d.in.residual_scale + c);
    residual_bias.load(d.in.residual_bias + c);
  }
};

// A row at a thread's columns; g is the gradient that came to the merged stream.
template <class T>
struct MergeGradRow {
  HeldColumns<T> x, dnormed;
  HeldColumns<float> stream, g;

  // x_row: null for a row of zeros.
  __device__ void load(const MergedGradient<T>& d, int64_t r, const T* x_row, int64_t c) {
    x = {};
    if (x_row) x.load(x_row + c);
    if (d.dnormed) dnormed.load(d.dnormed[r] + c);
    if (d.in.stream) stream.load(d.in.stream[r] + c);
    if (d.dmerged) g.load(d.dmerged[r] + c);
  }
  __device__ float merged(const MergeGradColumns<T>& v, int i) const {
    return (x[i] + v.hidden_bias[i]) * v.hidden_scale[i] +
           (stream[i] + v.residual_bias[i]) * v.residual_scale[i];
  }
};

// Sums over the block for rows in a row: two of them have places of their own, so that nobody
// writes where another still reads, with one barrier a row.
constexpr int kSumLanes = 32, kSumWarps = gpu::kThreads / kSumLanes;

struct RowSums {
  float parts[2][kSumWarps];

  __device__ void put(float value, int64_t r) {
    value = gpu::lanes_sum(value, kSumLanes);
    if (threadIdx.x % kSumLanes == 0) parts[r % 2][threadIdx.x / kSumLanes] = value;
  }
  // After a barrier.
  __device__ float of(int64_t r) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kSumWarps; ++i) sum += parts[r % 2][i];
    return sum;
  }
};

// A block has a part of the rows, and reads the next one while it works on one; where that lies it
// has asked a row earlier. The gradient of a row's weight is summed behind the next row's barrier.
// parts [gridDim.x][kMergeSums][width], or null.
template <class T, int kUnits, bool kRouted>
__global__ void __launch_bounds__(gpu::kThreads, kUnits <= 2 ? 2 : 1)
    merge_norm_grad_rows(MergeNormGradRow<T> a, RowRoutes routes, int64_t rows, int64_t rows_each,
                         float* parts) {
  __shared__ RowSums dots, weight_dots;
  const MergedGradient<T>& d = a.d;
  const auto column = [](int u) {
    return (u * gpu::kThreads + threadIdx.x) * int64_t{kGradColumns};
  };
  const int32_t end_of_rows = routes.end<kRouted>();
  const auto x_row = [&](const RowRoute& route) -> const T* {
    return route.place < end_of_rows ? d.in.x[route.place] : nullptr;
  };
  const auto write_route_weight = [&](int64_t r) {  // behind the barrier of the row after it
    if (!kRouted || !routes.dweights || threadIdx.x > 0) return;
    gpu::write(routes.dweights + r, weight_dots.of(r + 1), routes.accumulate_dweights);
  };
  float sums[kMergeSums][kUnits][kGradColumns] = {};
  MergeGradRow<T> next[kUnits];
  const int64_t begin = blockIdx.x * rows_each;
  const int64_t end = begin + rows_each < rows ? begin + rows_each : rows;
  float weight_dot = 0;  // of the row before
  RowRoute next_route = routes.at<kRouted>(begin);
  RowRoute route_after = routes.at<kRouted>(begin + 1 < end ? begin + 1 : begin);
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if (column(u) < a.width) next[u].load(d, begin, x_row(next_route), column(u));
  }
  for (int64_t r = begin; r < end; ++r) {
    MergeGradRow<T> row[kUnits];
    HeldColumns<T> y[kUnits];  // x before its weight
    const RowRoute route = next_route;
    next_route = route_after;
    float dot = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      row[u] = next[u];
      if (r + 1 < end && column(u) < a.width) {
        next[u].load(d, r + 1, x_row(next_route), column(u));
      }
    }
    if (r + 2 < end) route_after = routes.at<kRouted>(r + 2);
    const float s = d.rstd[r];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (column(u) >= a.width) continue;
      const MergeGradColumns<T> v(d, column(u));
      y[u] = row[u].x;
      if constexpr (kRouted) row[u].x = y[u].times(route.weight);
#pragma unroll
      for (int i = 0; i < kGradColumns; ++i) {
        dot += row[u].dnormed[i] * v.weight[i] * row[u].merged(v, i);
      }
    }
    dots.put(dot, r);
    if constexpr (kRouted) weight_dots.put(weight_dot, r);
    __syncthreads();
    const float mean = dots.of(r) / static_cast<float>(a.width) * s * s;
    if (r > begin) write_route_weight(r - 1);
    weight_dot = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (column(u) >= a.width) continue;
      const MergeGradColumns<T> v(d, column(u));
      float dx[kGradColumns], dstream[kGradColumns];
#pragma unroll
      for (int i = 0; i < kGradColumns; ++i) {
        const float m = row[u].merged(v, i), dn = row[u].dnormed[i];
        const float g = row[u].g[i] + s * (v.weight[i] * dn - m * mean);
        dx[i] = g * v.hidden_scale[i];
        dstream[i] = g * v.residual_scale[i];
        sums[kSumG][u][i] += g;
        sums[kSumGx][u][i] += g * (row[u].x[i] + v.hidden_bias[i]);
        sums[kSumGStream][u][i] += g * (row[u].stream[i] + v.residual_bias[i]);
        sums[kSumNormed][u][i] += dn * m * s;
      }
      if constexpr (kRouted) {
        const float weight = x_row(route) ? route.weight : 0.0f;
#pragma unroll
        for (int i = 0; i < kGradColumns; ++i) {
          weight_dot += dx[i] * y[u][i];
          dx[i] *= weight;
        }
      }
      if (a.dx) write_columns(a.dx[route.place] + column(u), dx, a.accumulate_dx);
      if (a.dstream) write_columns(a.dstream[r] + column(u), dstream, a.accumulate_dstream);
    }
  }
  if constexpr (kRouted) weight_dots.put(weight_dot, end);
  __syncthreads();
  write_route_weight(end - 1);
  if (!parts) return;
#pragma unroll
  for (int k = 0; k < kMergeSums; ++k) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (column(u) >= a.width) continue;
      write_columns(parts + (blockIdx.x * kMergeSums + k) * a.width + column(u), sums[k][u], false);
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

// Calls f.operator()<kUnits>() with enough units of so many columns a thread for rows of up to
// 8,192; false when they are longer.
template <int kEach, class F>
bool visit_units(int64_t width, const F& f) {
  constexpr int64_t kUnit = int64_t{gpu::kThreads} * kEach, kMost = 8192;
  if (width <= kUnit) return f.template operator()<1>(), true;
  if (width <= 2 * kUnit) return f.template operator()<2>(), true;
  if (width <= 4 * kUnit) return f.template operator()<4>(), true;
  if constexpr (4 * kUnit < kMost) {
    if (width <= kMost) return f.template operator()<kMost / kUnit>(), true;
  }
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
  const bool launched = visit_units<kGradColumns>(f.width, [&]<int kUnits>() {
    if (k.wants_vectors()) {
      parts =
          Tensor({cut.count, kMergeSums * f.width}, DType::f32, k.x.device(), Purpose::workspace);
    }
    auto* const kernel =
        k.routes ? merge_norm_grad_rows<T, kUnits, true> : merge_norm_grad_rows<T, kUnits, false>;
    stream.launch(kernel, {.blocks = cut.count, .threads = gpu::kThreads}, f,
                  row_routes(k.routes, k.droute_weight), k.x.rows(), cut.rows_each,
                  gpu::data_of<float>(parts));
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
    const bool launched =
        wide && visit_units<kWide>(f.width, [&]<int kUnits>() {
          auto* const kernel =
              routes ? merge_norm_rows<T, kUnits, true> : merge_norm_rows<T, kUnits, false>;
          gpu_stream.launch(kernel, {.blocks = x.rows(), .threads = gpu::kThreads}, f,
                            row_routes(routes, {}));
        });
    if (launched) return;
    if (routes) return merge_norm_steps(*this, [&](const auto& k) { k.on_gpu(gpu_stream); });
    gpu::for_each_row(gpu_stream, x.rows(), f);
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
    if (routes) return merge_norm_grad_steps(*this, [&](const auto& k) { k.on_gpu(gpu_stream); });
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

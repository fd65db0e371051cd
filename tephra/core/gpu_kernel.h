// SPDX-License-Identifier: Apache-2.0
// What GPU kernels are made of: rows of tensors, sums in one fixed order, and the three shapes that
// most ops have: something for each element, something for each row, a sum over rows.
#pragma once

#include <algorithm>
#include <memory>

#include "tephra/base/number.h"
#include "tephra/core/tensor.h"
#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

inline constexpr int kThreads = 256;

// The number of waves in a block of kThreads, at most.
inline constexpr int kMostWaves = kThreads / 32;

inline int64_t blocks_for(int64_t count, int64_t per_block) {
  return (count + per_block - 1) / per_block;
}

// Calls f.operator()<T>() with float or bf16. f64 is the oracle's type and stays on the CPU.
template <class F>
void visit_float(DType dtype, F&& f) {
  if (dtype == DType::f32) {
    f.template operator()<float>();
  } else if (dtype == DType::bf16) {
    f.template operator()<bf16>();
  } else {
    throw Error(Fault::device, format("GPU kernels compute in f32 and bf16, not in {}", dtype),
                "use --dtype f32 or bf16, or --device cpu");
  }
}

// A tensor as kernels see it; null when it is undefined.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;

  __host__ __device__ T* operator[](int64_t row) const { return data + row * stride; }
  __host__ __device__ explicit operator bool() const { return data != nullptr; }
};

template <class T>
Rows<T> rows_of(const Tensor& t) {
  if (!t.defined()) return {};
  return {t.data<std::remove_const_t<T>>(), t.row_stride()};
}

template <class T>
T* data_of(const Tensor& t) {
  return t.defined() ? t.data<std::remove_const_t<T>>() : nullptr;
}

// Overwrites, or adds to what is there: how every gradient is written (autograd/variable.h).
template <class T>
__device__ void write(T* to, float value, bool accumulate) {
  *to = T(accumulate ? float(*to) + value : value);
}

template <class A>
__device__ A wave_sum(A value) {
  for (int mask = wave_size() / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

template <class A>
__device__ A wave_max(A value) {
  for (int mask = wave_size() / 2; mask > 0; mask /= 2) {
    const A other = shuffle_xor(value, mask);
    value = other > value || other != other ? other : value;
  }
  return value;
}

// Over the block, the same value for every thread. All threads take part.
template <class A>
__device__ A block_sum(A value) {
  __shared__ A parts[kMostWaves];
  value = wave_sum(value);
  __syncthreads();  // an earlier call's readers are done
  if (threadIdx.x % wave_size() == 0) parts[threadIdx.x / wave_size()] = value;
  __syncthreads();
  A sum = parts[0];
  for (int i = 1; i < static_cast<int>(blockDim.x) / wave_size(); ++i) sum += parts[i];
  return sum;
}

// The largest; NaN when there is one.
template <class A>
__device__ A block_max(A value) {
  __shared__ A parts[kMostWaves];
  value = wave_max(value);
  __syncthreads();
  if (threadIdx.x % wave_size() == 0) parts[threadIdx.x / wave_size()] = value;
  __syncthreads();
  A largest = parts[0];
  for (int i = 1; i < static_cast<int>(blockDim.x) / wave_size(); ++i) {
    largest = parts[i] > largest || parts[i] != parts[i] ? parts[i] : largest;
  }
  return largest;
}

// Over `lanes` neighbouring threads, a power of two no larger than a wave; all threads of the wave
// take part.
template <class A>
__device__ A lanes_sum(A value, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

// --- several columns at a time ----------------------------------------------------------------

// Columns that a thread moves at once where a tensor is aligned for it: 16 bytes of bf16.
inline constexpr int kWide = 8;

// Consecutive elements as floats.
template <int W>
struct Floats {
  float at[W] = {};

  __device__ float& operator[](int i) { return at[i]; }
  __device__ float operator[](int i) const { return at[i]; }
  // f(i) for each, unrolled.
  template <class F>
  __device__ static Floats of(F f) {
    Floats v;
#pragma unroll
    for (int i = 0; i < W; ++i) v.at[i] = f(i);
    return v;
  }
};

// Consecutive elements as they lie in memory, moved 16 bytes at a time.
template <int W, class T>
struct Packed {
  static constexpr int kEach = W == 1 ? 1 : 16 / sizeof(T);
  static_assert(W % kEach == 0);
  struct alignas(W == 1 ? alignof(T) : 16) Unit {
    T at[kEach];
  };
  Unit units[W / kEach];

  __device__ T operator[](int i) const { return units[i / kEach].at[i % kEach]; }
  // f(i) for each, unrolled.
  template <class F>
  __device__ static Packed of(F f) {
    Packed v;
#pragma unroll
    for (int i = 0; i < W; ++i) v.units[i / kEach].at[i % kEach] = f(i);
    return v;
  }
};

template <int W, class T>
__device__ Packed<W, T> load_packed(const T* from) {
  Packed<W, T> v;
#pragma unroll
  for (int u = 0; u < W / v.kEach; ++u) {
    v.units[u] = reinterpret_cast<const typename Packed<W, T>::Unit*>(from)[u];
  }
  return v;
}

template <int W, class T>
__device__ Floats<W> load(const T* from) {
  const Packed<W, T> v = load_packed<W>(from);
  return Floats<W>::of([&](int i) { return float(v[i]); });
}

template <int W, class T>
__device__ void store_packed(T* to, const Packed<W, T>& v) {
#pragma unroll
  for (int u = 0; u < W / v.kEach; ++u) {
    reinterpret_cast<typename Packed<W, T>::Unit*>(to)[u] = v.units[u];
  }
}

template <int W, class T>
__device__ void store(T* to, const Floats<W>& v) {
  if constexpr (W % 8 == 0 && std::is_same_v<T, bf16>) {
#pragma unroll
    for (int i = 0; i < W; i += 8) {
      *reinterpret_cast<Bits128*>(to + i) = {
          bf16_pair(v[i], v[i + 1]), bf16_pair(v[i + 2], v[i + 3]), bf16_pair(v[i + 4], v[i + 5]),
          bf16_pair(v[i + 6], v[i + 7])};
    }
    return;
  }
  store_packed(to, Packed<W, T>::of([&](int i) { return T(v[i]); }));
}

template <int W, class T>
__device__ void write(T* to, Floats<W> v, bool accumulate) {
  if (accumulate) {
    const Floats<W> before = load<W>(to);
#pragma unroll
    for (int i = 0; i < W; ++i) v[i] += before[i];
  }
  store(to, v);
}

template <class T>
bool is_wide(const Rows<T>& r) {
  return reinterpret_cast<uintptr_t>(r.data) % 16 == 0 && r.stride * int64_t{sizeof(T)} % 16 == 0;
}
template <class T>
bool is_wide(const T* vector) {
  return reinterpret_cast<uintptr_t>(vector) % 16 == 0;
}
// Whether columns may be moved kWide at a time: so many of them, in all these rows and vectors.
template <class... R>
bool are_wide(int64_t cols, const R&... tensors) {
  return cols % kWide == 0 && (... && is_wide(tensors));
}

// Threads that hold a row of `width` columns together, kWide each: a power of two up to 32, the
// smallest wave, else 0.
inline int lanes_for(int64_t width) {
  const int64_t lanes = width / kWide;
  return width % kWide == 0 && lanes >= 1 && lanes <= 32 && (lanes & (lanes - 1)) == 0
             ? static_cast<int>(lanes)
             : 0;
}

template <int W, class F>
__global__ void run_for_each_wide(uint32_t count, uint32_t units, F f) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) f.template run<W>(int64_t{i / units}, int64_t{i % units} * W);
}

template <class F>
struct OneColumn {
  F f;

  __device__ void operator()(int64_t r, int64_t c) const { f.template run<1>(r, c); }
};

template <class F>
__global__ void run_for_each(int64_t cols, F f) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  for (int64_t c = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; c < cols; c += step) f(row, c);
}

// f(row, column) for every element.
template <class F>
void for_each(Stream& stream, int64_t rows, int64_t cols, const F& f) {
  if (rows == 0 || cols == 0) return;
  constexpr int64_t kColumnsEach = 16 * kThreads, kMostBlocks = 1 << 15;
  const int threads = static_cast<int>(std::min<int64_t>(kThreads, blocks_for(cols, 64) * 64));
  const int64_t across = std::min(blocks_for(cols, kColumnsEach), kMostBlocks);
  stream.launch(run_for_each<F>, {.blocks = rows, .blocks_y = across, .threads = threads}, cols, f);
}

// f.run<W>(row, column) for every W columns from `column` on: kWide of them when `wide`, else one.
template <class F>
void for_each_wide(Stream& stream, int64_t rows, int64_t cols, bool wide, const F& f) {
  const int64_t units = cols / kWide, count = rows * units;
  if (!wide || count >= int64_t{1} << 31) return for_each(stream, rows, cols, OneColumn<F>{f});
  stream.launch(run_for_each_wide<kWide, F>,
                {.blocks = blocks_for(count, kThreads), .threads = kThreads},
                static_cast<uint32_t>(count), static_cast<uint32_t>(units), f);
}

template <class F>
__global__ void run_for_each_index(int64_t count, F f) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) f(i);
}

// f(i) for i in [0, count).
template <class F>
void for_each_index(Stream& stream, int64_t count, const F& f) {
  stream.launch(run_for_each_index<F>, {.blocks = blocks_for(count, kThreads), .threads = kThreads},
                count, f);
}

template <class F>
__global__ void run_for_each_row(F f) {
  f(int64_t{blockIdx.x});
}

// f(row) by a whole block of kThreads for every row.
template <class F>
void for_each_row(Stream& stream, int64_t rows, const F& f) {
  stream.launch(run_for_each_row<F>, {.blocks = rows, .threads = kThreads}, f);
}

// --- sums over rows ---------------------------------------------------------------------------

// Blocks of rows that are summed apart; how many rows each has follows from the shape alone.
inline constexpr int64_t kMostParts = 256;

struct RowParts {
  int64_t rows_each, count;

  explicit RowParts(int64_t rows)
      : rows_each(std::max<int64_t>(16, blocks_for(rows, kMostParts))),
        count(blocks_for(rows, rows_each)) {}
};

inline constexpr int kSumColumns = 32, kSumGroups = kThreads / kSumColumns;

// out[c] = the sum of parts[i][c]: kSumGroups stretches of parts, then these in order.
template <class Out>
__global__ void sum_parts_kernel(const float* parts, int64_t count, int64_t stride, int64_t cols,
                                 Out* out, bool accumulate) {
  __shared__ float sums[kSumGroups][kSumColumns];
  const int group = static_cast<int>(threadIdx.x) / kSumColumns;
  const int column = static_cast<int>(threadIdx.x) % kSumColumns;
  const int64_t c = int64_t{blockIdx.x} * kSumColumns + column;
  const int64_t each = (count + kSumGroups - 1) / kSumGroups;
  const int64_t end = (group + 1) * each < count ? (group + 1) * each : count;
  float sum = 0;
  if (c < cols) {
#pragma unroll 8
    for (int64_t i = group * each; i < end; ++i) sum += parts[i * stride + c];
  }
  sums[group][column] = sum;
  __syncthreads();
  if (group > 0 || c >= cols) return;
  for (int i = 1; i < kSumGroups; ++i) sum += sums[i][column];
  write(out + c, sum, accumulate);
}

// `parts` has `count` rows, `stride` apart.
inline void sum_parts(Stream& stream, const float* parts, int64_t count, int64_t stride,
                      int64_t cols, float* out, bool accumulate) {
  stream.launch(sum_parts_kernel<float>,
                {.blocks = blocks_for(cols, kSumColumns), .threads = kThreads}, parts, count,
                stride, cols, out, accumulate);
}

// Of the groups of threads of a block that have the same columns, in order; for the first of them.
template <int W, int kColumns, int kGroups>
__device__ Floats<W> sum_groups(const Floats<W>& own, int group, int column) {
  __shared__ float sums[kGroups][kColumns * W];
#pragma unroll
  for (int i = 0; i < W; ++i) sums[group][i * kColumns + column] = own[i];
  __syncthreads();
  Floats<W> sum = own;
  if (group > 0) return sum;
  for (int g = 1; g < kGroups; ++g) {
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += sums[g][i * kColumns + column];
  }
  return sum;
}

inline constexpr int kPartColumns = 64, kPartGroups = kThreads / kPartColumns;

template <class F>
__global__ void run_column_parts(int64_t rows, int64_t cols, int64_t rows_each, F f, float* parts) {
  const int group = static_cast<int>(threadIdx.x) / kPartColumns;
  const int column = static_cast<int>(threadIdx.x) % kPartColumns;
  const int64_t c = int64_t{blockIdx.x} * kPartColumns + column;
  const int64_t begin = blockIdx.y * rows_each;
  const int64_t end = begin + rows_each < rows ? begin + rows_each : rows;
  Floats<1> sum;
  if (c < cols) {
#pragma unroll 4
    for (int64_t r = begin + group; r < end; r += kPartGroups) sum[0] += f(r, c);
  }
  sum = sum_groups<1, kPartColumns, kPartGroups>(sum, group, column);
  if (group == 0 && c < cols) parts[blockIdx.y * cols + c] = sum[0];
}

// out[c] = sum over rows of f(row, c), blocks of rows first, then the blocks in order. `out` is
// dense and f32.
template <class F>
void sum_rows(Stream& stream, int64_t rows, int64_t cols, const F& f, float* out, bool accumulate) {
  if (cols == 0) return;
  const RowParts cut(rows);
  const auto parts = Storage::allocate(stream.device(), cut.count * cols * 4, Purpose::workspace);
  auto* sums = static_cast<float*>(parts->data());
  stream.launch(
      run_column_parts<F>,
      {.blocks = blocks_for(cols, kPartColumns), .blocks_y = cut.count, .threads = kThreads}, rows,
      cols, cut.rows_each, f, sums);
  sum_parts(stream, sums, cut.count, cols, cols, out, accumulate);
}

// The same of rows of a tensor: bias gradients.
template <class T>
struct RowValue {
  Rows<const T> x;

  __device__ float operator()(int64_t r, int64_t c) const { return float(x[r][c]); }
};

inline constexpr int kWidePartColumns = 32, kWidePartGroups = kThreads / kWidePartColumns;

template <class T>
__global__ void run_wide_column_parts(Rows<const T> x, int64_t rows, int64_t cols,
                                      int64_t rows_each, float* parts) {
  const int group = static_cast<int>(threadIdx.x) / kWidePartColumns;
  const int column = static_cast<int>(threadIdx.x) % kWidePartColumns;
  const int64_t c = (int64_t{blockIdx.x} * kWidePartColumns + column) * kWide;
  const int64_t begin = blockIdx.y * rows_each;
  const int64_t end = begin + rows_each < rows ? begin + rows_each : rows;
  Floats<kWide> sum;
  if (c < cols) {
#pragma unroll 4
    for (int64_t r = begin + group; r < end; r += kWidePartGroups) {
      const Floats<kWide> v = load<kWide>(x[r] + c);
#pragma unroll
      for (int i = 0; i < kWide; ++i) sum[i] += v[i];
    }
  }
  sum = sum_groups<kWide, kWidePartColumns, kWidePartGroups>(sum, group, column);
  if (group == 0 && c < cols) store(parts + blockIdx.y * cols + c, sum);
}

template <class T>
void sum_rows(Stream& stream, const Rows<const T>& x, int64_t rows, int64_t cols, float* out,
              bool accumulate) {
  if (!are_wide(cols, x) || rows == 0) {
    return sum_rows(stream, rows, cols, RowValue<T>{x}, out, accumulate);
  }
  const RowParts cut(rows);
  const auto parts = Storage::allocate(stream.device(), cut.count * cols * 4, Purpose::workspace);
  auto* sums = static_cast<float*>(parts->data());
  stream.launch(run_wide_column_parts<T>,
                {.blocks = blocks_for(cols, int64_t{kWidePartColumns} * kWide),
                 .blocks_y = cut.count,
                 .threads = kThreads},
                x, rows, cols, cut.rows_each, sums);
  sum_parts(stream, sums, cut.count, cols, cols, out, accumulate);
}

}  // namespace tephra::gpu

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

template <class F>
__global__ void run_column_parts(int64_t rows, int64_t cols, int64_t rows_each, F f, float* parts) {
  const int64_t c = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  const int64_t begin = blockIdx.y * rows_each;
  const int64_t end = begin + rows_each < rows ? begin + rows_each : rows;
  float sum = 0;
  for (int64_t r = begin; r < end; ++r) sum += f(r, c);
  parts[blockIdx.y * cols + c] = sum;
}

struct ColumnSums {
  const float* parts;
  int64_t count, cols;
  float* out;
  bool accumulate;

  __device__ void operator()(int64_t, int64_t c) const {
    float sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += parts[i * cols + c];
    write(out + c, sum, accumulate);
  }
};

// out[c] = sum over rows of f(row, c), blocks of rows first, then the blocks in order. `out` is
// dense and f32.
template <class F>
void sum_rows(Stream& stream, int64_t rows, int64_t cols, const F& f, float* out, bool accumulate) {
  if (cols == 0) return;
  constexpr int64_t kMostParts = 256;
  constexpr int kColumns = 64;
  const int64_t rows_each = std::max<int64_t>(16, blocks_for(rows, kMostParts));
  const int64_t count = blocks_for(rows, rows_each);
  const auto parts = Storage::allocate(stream.device(), count * cols * 4, Purpose::workspace);
  auto* sums = static_cast<float*>(parts->data());
  stream.launch(run_column_parts<F>,
                {.blocks = blocks_for(cols, kColumns), .blocks_y = count, .threads = kColumns},
                rows, cols, rows_each, f, sums);
  for_each(stream, 1, cols, ColumnSums{sums, count, cols, out, accumulate});
}

}  // namespace tephra::gpu

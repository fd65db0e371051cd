// SPDX-License-Identifier: Apache-2.0
// Offsets stay on the device: the grid is as large as any routing needs, and each block finds its
// expert. This is the portable form; bf16 on a Hopper device takes device/gpu/grouped_gemm.h where
// the shape allows.
#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/device/gpu/grouped_gemm.h"
#include "tephra/device/gpu/tile.h"
#include "tephra/ops/grouped_linear.h"

namespace tephra::kernel {
namespace {

// Which expert's rows the block has; none when it is one too many.
template <int kSide>
struct ExpertTile {
  int expert = -1;
  int64_t row = 0, end = 0;

  __device__ ExpertTile(const int32_t* offsets, int experts, int64_t index) {
    for (int e = 0; e < experts; ++e) {
      const int64_t rows = offsets[e + 1] - offsets[e], tiles = (rows + kSide - 1) / kSide;
      if (index < tiles) {
        expert = e;
        row = offsets[e] + index * kSide;
        end = offsets[e + 1];
        return;
      }
      index -= tiles;
    }
  }
};

struct WideExperts {
  bool rows, weights;
};

// Rows of `x` times weight[e]^T, or times weight[e] for the gradient of the input.
template <class T, bool kGrad>
__global__ void __launch_bounds__(gpu::kTileThreads)
    multiply_experts(gpu::Rows<const T> x, const T* weight, const int32_t* offsets, int experts,
                     int64_t out, int64_t in, gpu::Rows<T> y, bool accumulate, WideExperts wide) {
  using Product = gpu::LargeTile<T>;
  __shared__ typename Product::Buffers buffers;
  const ExpertTile<Product::kSide> tile(offsets, experts, blockIdx.x);
  if (tile.expert < 0) return;
  const int64_t column = int64_t{blockIdx.y} * Product::kSide, columns = kGrad ? in : out;
  const int64_t terms = kGrad ? out : in;
  const T* w = weight + tile.expert * out * in;
  const auto left = gpu::along_terms(
      [&](int64_t i) { return tile.row + i < tile.end ? x[tile.row + i] : nullptr; }, terms,
      wide.rows);
  typename Product::Sums sums;
  if constexpr (kGrad) {
    Product::multiply(buffers, 0, terms, left,
                      gpu::across_terms([&](int64_t k) { return w + k * in + column; },
                                        columns - column, wide.weights),
                      sums);
  } else {
    const auto right = [&](int64_t j) {
      return column + j < columns ? w + (column + j) * in : nullptr;
    };
    Product::multiply(buffers, 0, terms, left, gpu::along_terms(right, terms, wide.weights), sums);
  }
  sums.each([&](int i, int j, float value) {
    if (tile.row + i >= tile.end || column + j >= columns) return;
    gpu::write(y[tile.row + i] + column + j, value, accumulate);
  });
}

// dw[e] = dy^T x over the expert's rows, in order.
template <class T>
__global__ void __launch_bounds__(gpu::kTileThreads)
    multiply_expert_weights(gpu::Rows<const T> dy, gpu::Rows<const T> x, const int32_t* offsets,
                            int64_t out, int64_t in, float* dweight, bool accumulate, bool wide) {
  using Product = gpu::LargeTile<T>;
  __shared__ typename Product::Buffers buffers;
  const int64_t row = int64_t{blockIdx.y} * Product::kSide;
  const int64_t column = int64_t{blockIdx.x} * Product::kSide;
  typename Product::Sums sums;
  Product::multiply(buffers, offsets[blockIdx.z], offsets[blockIdx.z + 1],
                    gpu::across_terms([&](int64_t r) { return dy[r] + row; }, out - row, wide),
                    gpu::across_terms([&](int64_t r) { return x[r] + column; }, in - column, wide),
                    sums);
  float* to = dweight + blockIdx.z * out * in;
  sums.each([&](int i, int j, float value) {
    if (row + i >= out || column + j >= in) return;
    gpu::write(to + (row + i) * in + column + j, value, accumulate);
  });
}

// Rows of skipped tokens, few or none: how many there are is known on the device alone.
template <class T>
struct ClearSkipped {
  const int32_t* routed;
  int64_t rows, cols;
  gpu::Rows<T> y;

  static constexpr int64_t kBlocks = 64;

  __device__ void operator()(int64_t block) const {
    for (int64_t r = *routed + block; r < rows; r += kBlocks) {
      for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) y[r][c] = T(0.0f);
    }
  }
};

// The fast path; false when it does not take this.
bool run_fast(gpu::Stream& stream, gpu::GroupedProduct product, const Tensor& a, const Tensor& b,
              const Tensor& c, const Tensor& weight, const Tensor& offsets, bool accumulate) {
  if constexpr (gpu::kHasFastPaths) {
    if (a.dtype() != DType::bf16 || gpu::only_portable()) return false;
    return gpu::grouped_gemm_hopper(stream, {.product = product,
                                             .experts = static_cast<int>(weight.dim(0)),
                                             .rows = a.rows(),
                                             .in = weight.dim(2),
                                             .out = weight.dim(1),
                                             .offsets = offsets.data<int32_t>(),
                                             .a = a.raw(),
                                             .a_stride = a.row_stride(),
                                             .b = b.raw(),
                                             .b_stride = b.row_stride(),
                                             .c = c.raw(),
                                             .c_stride = c.row_stride(),
                                             .accumulate = accumulate});
  }
  return false;
}

template <class T, bool kGrad>
void run_experts(gpu::Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& offsets,
                 const Tensor& y, bool accumulate) {
  constexpr int kSide = gpu::LargeTile<T>::kSide;
  const int64_t experts = weight.dim(0), tiles = gpu::blocks_for(x.rows(), kSide) + experts;
  const int32_t* bounds = offsets.data<int32_t>();
  if (!accumulate) {
    gpu::for_each_row(stream, ClearSkipped<T>::kBlocks,
                      ClearSkipped<T>{bounds + experts, y.rows(), y.cols(), gpu::rows_of<T>(y)});
  }
  if (x.rows() == 0) return;
  if (!accumulate &&
      run_fast(stream, kGrad ? gpu::GroupedProduct::input_gradient : gpu::GroupedProduct::output, x,
               weight, y, weight, offsets, false)) {
    return;
  }
  // Tiles of rows are in the first axis, which has room for any number of them.
  stream.launch(
      multiply_experts<T, kGrad>,
      {.blocks = tiles, .blocks_y = gpu::blocks_for(y.cols(), kSide), .threads = gpu::kTileThreads},
      gpu::rows_of<const T>(x), weight.data<T>(), bounds, static_cast<int>(experts), weight.dim(1),
      weight.dim(2), gpu::rows_of<T>(y), accumulate,
      WideExperts{gpu::is_wide(gpu::rows_of<const T>(x)),
                  gpu::are_wide(weight.dim(2), weight.data<T>())});
}

}  // namespace

void GroupedLinear::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(),
                   [&]<class T>() { run_experts<T, false>(stream, x, weight, offsets, y, false); });
}

void PackedGroupedLinear::on_gpu(gpu::Stream& stream) const {
  const Tensor written(weight.shape(), x.dtype(), x.device(), Purpose::workspace);
  Unpack{weight.packed(), written, 0, offsets}.on_gpu(stream);
  GroupedLinear{x, written, offsets, y}.on_gpu(stream);
}

void GroupedLinearGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    if (dx) run_experts<T, true>(stream, dy, weight, offsets, dx, accumulate_dx);
    if (!dweight) return;
    if (run_fast(stream, gpu::GroupedProduct::weight_gradient, dy, x, dweight, weight, offsets,
                 accumulate_dweight)) {
      return;
    }
    constexpr int kSide = gpu::LargeTile<T>::kSide;
    const int64_t out = weight.dim(1), in = weight.dim(2);
    const gpu::Rows<const T> rows[] = {gpu::rows_of<const T>(dy), gpu::rows_of<const T>(x)};
    stream.launch(multiply_expert_weights<T>,
                  {.blocks = gpu::blocks_for(in, kSide),
                   .blocks_y = gpu::blocks_for(out, kSide),
                   .blocks_z = weight.dim(0),
                   .threads = gpu::kTileThreads},
                  rows[0], rows[1], offsets.data<int32_t>(), out, in, dweight.data<float>(),
                  accumulate_dweight, gpu::is_wide(rows[0]) && gpu::is_wide(rows[1]));
  });
}

}  // namespace tephra::kernel

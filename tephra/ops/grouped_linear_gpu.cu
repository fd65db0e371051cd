// SPDX-License-Identifier: Apache-2.0
// Offsets stay on the device: the grid is as large as any routing needs, and each block finds its
// expert. This is the portable form, with tiles in f32; bf16 on a Hopper device takes
// device/gpu/grouped_gemm.h where the shape allows.
#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/device/gpu/grouped_gemm.h"
#include "tephra/device/gpu/tile.h"
#include "tephra/ops/grouped_linear.h"

namespace tephra::kernel {
namespace {

// Which expert's rows the block has; none when it is one too many.
struct ExpertTile {
  int expert = -1;
  int64_t row = 0, end = 0;

  __device__ ExpertTile(const int32_t* offsets, int experts, int64_t index) {
    for (int e = 0; e < experts; ++e) {
      const int64_t rows = offsets[e + 1] - offsets[e],
                    tiles = (rows + gpu::kTile - 1) / gpu::kTile;
      if (index < tiles) {
        expert = e;
        row = offsets[e] + index * gpu::kTile;
        end = offsets[e + 1];
        return;
      }
      index -= tiles;
    }
  }
};

// Rows of `x` times weight[e]^T, or times weight[e] for the gradient of the input.
template <class T, bool kGrad>
__global__ void multiply_experts(gpu::Rows<const T> x, const T* weight, const int32_t* offsets,
                                 int experts, int64_t out, int64_t in, gpu::Rows<T> y,
                                 bool accumulate) {
  __shared__ gpu::TileBuffers buffers;
  const ExpertTile tile(offsets, experts, blockIdx.x);
  if (tile.expert < 0) return;
  const int64_t column = int64_t{blockIdx.y} * gpu::kTile, columns = kGrad ? in : out;
  const T* w = weight + tile.expert * out * in;
  gpu::TileSums sums;
  gpu::multiply_tile<true, !kGrad>(
      buffers, 0, kGrad ? out : in,
      [&](int i, int64_t k) -> float {
        return tile.row + i < tile.end ? float(x[tile.row + i][k]) : 0.0f;
      },
      [&](int j, int64_t k) -> float {
        if (column + j >= columns) return 0;
        return float(kGrad ? w[k * in + column + j] : w[(column + j) * in + k]);
      },
      sums);
  sums.each([&](int i, int j, float value) {
    if (tile.row + i >= tile.end || column + j >= columns) return;
    gpu::write(y[tile.row + i] + column + j, value, accumulate);
  });
}

// dw[e] = dy^T x over the expert's rows, in order.
template <class T>
__global__ void multiply_expert_weights(gpu::Rows<const T> dy, gpu::Rows<const T> x,
                                        const int32_t* offsets, int64_t out, int64_t in,
                                        float* dweight, bool accumulate) {
  __shared__ gpu::TileBuffers buffers;
  const int64_t row = int64_t{blockIdx.y} * gpu::kTile, column = int64_t{blockIdx.x} * gpu::kTile;
  gpu::TileSums sums;
  gpu::multiply_tile<false, false>(
      buffers, offsets[blockIdx.z], offsets[blockIdx.z + 1],
      [&](int i, int64_t r) -> float { return row + i < out ? float(dy[r][row + i]) : 0.0f; },
      [&](int j, int64_t r) -> float { return column + j < in ? float(x[r][column + j]) : 0.0f; },
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
  if constexpr (gpu::kHasCudaLibraries) {
    if (a.dtype() != DType::bf16 || gpu::using_portable_gemm()) return false;
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
  const int64_t experts = weight.dim(0), tiles = gpu::blocks_for(x.rows(), gpu::kTile) + experts;
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
  stream.launch(multiply_experts<T, kGrad>,
                {.blocks = tiles,
                 .blocks_y = gpu::blocks_for(y.cols(), gpu::kTile),
                 .threads = gpu::kTileThreads},
                gpu::rows_of<const T>(x), weight.data<T>(), bounds, static_cast<int>(experts),
                weight.dim(1), weight.dim(2), gpu::rows_of<T>(y), accumulate);
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
    const int64_t out = weight.dim(1), in = weight.dim(2);
    stream.launch(multiply_expert_weights<T>,
                  {.blocks = gpu::blocks_for(in, gpu::kTile),
                   .blocks_y = gpu::blocks_for(out, gpu::kTile),
                   .blocks_z = weight.dim(0),
                   .threads = gpu::kTileThreads},
                  gpu::rows_of<const T>(dy), gpu::rows_of<const T>(x), offsets.data<int32_t>(), out,
                  in, dweight.data<float>(), accumulate_dweight);
  });
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
// Each is a matrix product within a head, over taps and channels (or tokens), of tiles.
#include "tephra/device/gpu/tile.h"
#include "tephra/ops/grouped_conv.h"
#include "tephra/ops/segment_rows_gpu.h"

namespace tephra::kernel {
namespace {

template <class T>
struct GroupedConvArgs {
  gpu::SegmentLine<const T> in;  // u and its state, or dy
  const T* weight;               // [C, d, K]
  int64_t tokens, dim, taps;

  // Channel i of head h at `position` of the token's segment.
  __device__ float value(int64_t t, int64_t shift, int64_t channel) const {
    const gpu::SegmentTable& s = in.segments;
    const T* row = in.at(s.sequence[t], t - s.start[t] + shift);
    return row ? float(row[channel]) : 0.0f;
  }
};

// y_t[c] = bias[c] + sum over (k, i) of w[c, i, k] u_{t-K+1+k}[i]; for the gradient of u the sum is
// over (k, c) of w[c, i, k] dy_{t+K-1-k}[c].
template <class T, bool kGrad>
__global__ void convolve_heads(GroupedConvArgs<T> a, const T* bias, gpu::Rows<T> out,
                               bool accumulate) {
  __shared__ gpu::TileBuffers buffers;
  const int64_t row = int64_t{blockIdx.x} * gpu::kTile, column = int64_t{blockIdx.y} * gpu::kTile;
  const int64_t base = blockIdx.z * a.dim;
  gpu::TileSums sums;
  gpu::multiply_tile<true, true>(
      buffers, 0, a.taps * a.dim,
      [&](int i, int64_t at) -> float {
        if (row + i >= a.tokens) return 0;
        const int64_t k = at / a.dim, channel = base + at % a.dim;
        return a.value(row + i, kGrad ? a.taps - 1 - k : k - a.taps + 1, channel);
      },
      [&](int j, int64_t at) -> float {
        if (column + j >= a.dim) return 0;
        const int64_t k = at / a.dim, other = at % a.dim;
        const int64_t c = kGrad ? other : column + j, i = kGrad ? column + j : other;
        return float(a.weight[((base + c) * a.dim + i) * a.taps + k]);
      },
      sums);
  sums.each([&](int i, int j, float value) {
    if (row + i >= a.tokens || column + j >= a.dim) return;
    const int64_t c = base + column + j;
    gpu::write(out[row + i] + c, value + (bias ? float(bias[c]) : 0.0f), accumulate);
  });
}

// dw[c, i, k] = sum over t of dy_t[c] u_{t-K+1+k}[i]
template <class T>
__global__ void convolve_weight_grad(GroupedConvArgs<T> a, gpu::Rows<const T> dy, float* dweight,
                                     bool accumulate) {
  __shared__ gpu::TileBuffers buffers;
  const int64_t row = int64_t{blockIdx.x} * gpu::kTile, column = int64_t{blockIdx.y} * gpu::kTile;
  const int64_t base = blockIdx.z * a.dim, width = a.dim * a.taps;
  gpu::TileSums sums;
  gpu::multiply_tile<false, false>(
      buffers, 0, a.tokens,
      [&](int i, int64_t t) -> float {
        return row + i < a.dim ? float(dy[t][base + row + i]) : 0.0f;
      },
      [&](int j, int64_t t) -> float {
        if (column + j >= width) return 0;
        const int64_t i = (column + j) / a.taps, k = (column + j) % a.taps;
        return a.value(t, k - a.taps + 1, base + i);
      },
      sums);
  sums.each([&](int i, int j, float value) {
    if (row + i >= a.dim || column + j >= width) return;
    gpu::write(dweight + (base + row + i) * width + column + j, value, accumulate);
  });
}

template <class T>
struct GroupedConvLeftElement {
  gpu::SegmentLine<const T> dy;
  const T* weight;
  int64_t dim, taps;
  gpu::Rows<T> dleft;
  bool accumulate;

  __device__ void operator()(int64_t at, int64_t channel) const {
    const int64_t segment = at / (taps - 1), position = at % (taps - 1) - (taps - 1);
    const int64_t base = channel / dim * dim, i = channel % dim;
    float sum = 0;
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t output = position + taps - 1 - k;
      const T* row = output >= 0 ? dy.at(segment, output) : nullptr;
      for (int64_t c = 0; row && c < dim; ++c) {
        sum = fmaf(float(row[base + c]), float(weight[((base + c) * dim + i) * taps + k]), sum);
      }
    }
    gpu::write(dleft[at] + channel, sum, accumulate);
  }
};

template <class T>
struct GroupedConvBiasTerm {
  gpu::Rows<const T> dy;

  __device__ float operator()(int64_t r, int64_t c) const { return float(dy[r][c]); }
};

}  // namespace

void GroupedConv::on_gpu(gpu::Stream& stream) const {
  const int64_t dim = weight.dim(1);
  gpu::visit_float(u.dtype(), [&]<class T>() {
    const GroupedConvArgs<T> args{gpu::line_of<const T>(segments, u, left), weight.data<T>(),
                                  u.rows(), dim, weight.dim(2)};
    stream.launch(convolve_heads<T, false>,
                  {.blocks = gpu::blocks_for(u.rows(), gpu::kTile),
                   .blocks_y = gpu::blocks_for(dim, gpu::kTile),
                   .blocks_z = u.cols() / dim,
                   .threads = gpu::kTileThreads},
                  args, bias.data<T>(), gpu::rows_of<T>(y), false);
  });
}

void GroupedConvGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t dim = weight.dim(1), taps = weight.dim(2), heads = u.cols() / dim;
  gpu::visit_float(u.dtype(), [&]<class T>() {
    const auto d = gpu::line_of<const T>(segments, dy, {});
    if (du) {
      const GroupedConvArgs<T> args{d, weight.data<T>(), u.rows(), dim, taps};
      stream.launch(convolve_heads<T, true>,
                    {.blocks = gpu::blocks_for(u.rows(), gpu::kTile),
                     .blocks_y = gpu::blocks_for(dim, gpu::kTile),
                     .blocks_z = heads,
                     .threads = gpu::kTileThreads},
                    args, nullptr, gpu::rows_of<T>(du), accumulate_du);
    }
    if (dweight) {
      const GroupedConvArgs<T> args{gpu::line_of<const T>(segments, u, left), weight.data<T>(),
                                    u.rows(), dim, taps};
      stream.launch(convolve_weight_grad<T>,
                    {.blocks = gpu::blocks_for(dim, gpu::kTile),
                     .blocks_y = gpu::blocks_for(dim * taps, gpu::kTile),
                     .blocks_z = heads,
                     .threads = gpu::kTileThreads},
                    args, gpu::rows_of<const T>(dy), dweight.data<float>(), accumulate_dweight);
    }
    if (dbias) {
      gpu::sum_rows(stream, dy.rows(), dy.cols(), GroupedConvBiasTerm<T>{gpu::rows_of<const T>(dy)},
                    dbias.data<float>(), accumulate_dbias);
    }
    if (dleft && taps > 1) {
      gpu::for_each(stream, dleft.rows(), dleft.cols(),
                    GroupedConvLeftElement<T>{d, weight.data<T>(), dim, taps,
                                              gpu::rows_of<T>(dleft), accumulate_dleft});
    }
  });
}

}  // namespace tephra::kernel

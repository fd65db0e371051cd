// SPDX-License-Identifier: Apache-2.0
// The plan is a stable counting sort that stays on the device: a block for each class reads all
// choices, first to count, then to place its own tokens in order.
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/dispatch.h"

namespace tephra::kernel {
namespace {

__device__ int class_of(const int32_t* expert, int64_t token, int experts) {
  return expert[token] < experts ? expert[token] : experts;
}

// offsets[class] = how many tokens have it; the class after the last expert is for the skipped.
__global__ void count_classes(const int32_t* expert, int64_t tokens, int experts, int32_t* counts) {
  const int own = static_cast<int>(blockIdx.x);
  int count = 0;
  for (int64_t i = threadIdx.x; i < tokens; i += blockDim.x) {
    count += class_of(expert, i, experts) == own;
  }
  count = gpu::block_sum(count);
  if (threadIdx.x == 0) counts[own] = count;
}

// Counts become first places.
__global__ void place_classes(int classes, int32_t* counts) {
  int32_t at = 0;
  for (int c = 0; c < classes; ++c) {
    const int32_t count = counts[c];
    counts[c] = at;
    at += count;
  }
}

__global__ void place_tokens(const int32_t* expert, int64_t tokens, int experts,
                             const int32_t* offsets, int32_t* order) {
  __shared__ int sums[gpu::kThreads];
  const int own = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  int32_t at = offsets[own];
  for (int64_t base = 0; base < tokens; base += gpu::kThreads) {
    const int64_t i = base + thread;
    const int mine = i < tokens && class_of(expert, i, experts) == own ? 1 : 0;
    __syncthreads();
    sums[thread] = mine;
    __syncthreads();
    for (int step = 1; step < gpu::kThreads; step *= 2) {  // running sums
      const int before = thread >= step ? sums[thread - step] : 0;
      __syncthreads();
      sums[thread] += before;
      __syncthreads();
    }
    if (mine) order[at + sums[thread] - 1] = static_cast<int32_t>(i);
    at += sums[gpu::kThreads - 1];
  }
}

template <class T>
struct GatherElement {
  gpu::Rows<const T> from;
  const int32_t *order, *routed;
  gpu::Rows<T> to;

  __device__ void operator()(int64_t r, int64_t c) const {
    to[r][c] = r < *routed ? from[order[r]][c] : T(0.0f);
  }
};

template <class T>
struct ScatterElement {
  gpu::Rows<const T> from;
  const int32_t *order, *routed;
  gpu::Rows<T> to;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    gpu::write(to[order[r]] + c, r < *routed ? float(from[r][c]) : 0.0f, accumulate);
  }
};

template <class T>
struct CombineElement {
  gpu::Rows<const T> y;
  const float* weight;
  const int32_t *order, *routed;
  gpu::Rows<const T> skip;
  gpu::Rows<T> out;

  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t token = order[r];
    float value = 0;
    if (r < *routed) {
      value = float(y[r][c]);
    } else if (skip) {
      value = float(skip[token][c]);
    }
    out[token][c] = T(weight[token] * value);
  }
};

template <class T>
struct CombineGradRow {
  gpu::Rows<const T> dout, y;
  const float* weight;
  const int32_t *order, *routed;
  gpu::Rows<const T> skip;
  int64_t width;
  gpu::Rows<T> dy;
  bool accumulate_dy;
  float* dweight;
  bool accumulate_dweight;
  gpu::Rows<T> dskip;
  bool accumulate_dskip;

  __device__ void operator()(int64_t r) const {
    const int64_t token = order[r];
    const bool to_expert = r < *routed;
    const T* value = to_expert ? y[r] : skip ? skip[token] : nullptr;
    const float w = weight[token];
    float dot = 0;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      const float d = float(dout[token][c]);
      if (value) dot += d * float(value[c]);
      if (dy) gpu::write(dy[r] + c, to_expert ? w * d : 0.0f, accumulate_dy);
      if (dskip) gpu::write(dskip[token] + c, to_expert ? 0.0f : w * d, accumulate_dskip);
    }
    dot = gpu::block_sum(dot);
    if (dweight && threadIdx.x == 0) gpu::write(dweight + token, dot, accumulate_dweight);
  }
};

const int32_t* routed_of(const Tensor& offsets) {
  return offsets.data<int32_t>() + offsets.numel() - 1;
}

}  // namespace

void PlanDispatch::on_gpu(gpu::Stream& stream) const {
  const int classes = static_cast<int>(offsets.numel());
  const gpu::Grid all{.blocks = classes, .threads = gpu::kThreads};
  stream.launch(count_classes, all, expert.data<int32_t>(), expert.numel(), classes - 1,
                offsets.data<int32_t>());
  stream.launch(place_classes, {.threads = 1}, classes, offsets.data<int32_t>());
  stream.launch(place_tokens, all, expert.data<int32_t>(), expert.numel(), classes - 1,
                offsets.data<int32_t>(), order.data<int32_t>());
}

void GatherRows::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(from.dtype(), [&]<class T>() {
    gpu::for_each(stream, to.rows(), to.cols(),
                  GatherElement<T>{gpu::rows_of<const T>(from), order.data<int32_t>(),
                                   routed_of(offsets), gpu::rows_of<T>(to)});
  });
}

void ScatterRows::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(from.dtype(), [&]<class T>() {
    gpu::for_each(stream, from.rows(), from.cols(),
                  ScatterElement<T>{gpu::rows_of<const T>(from), order.data<int32_t>(),
                                    routed_of(offsets), gpu::rows_of<T>(to), accumulate});
  });
}

void CombineRows::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(y.dtype(), [&]<class T>() {
    gpu::for_each(stream, y.rows(), y.cols(),
                  CombineElement<T>{gpu::rows_of<const T>(y), weight.data<float>(),
                                    order.data<int32_t>(), routed_of(offsets),
                                    gpu::rows_of<const T>(skip_input), gpu::rows_of<T>(out)});
  });
}

void CombineRowsGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(y.dtype(), [&]<class T>() {
    gpu::for_each_row(
        stream, y.rows(),
        CombineGradRow<T>{gpu::rows_of<const T>(dout), gpu::rows_of<const T>(y),
                          weight.data<float>(), order.data<int32_t>(), routed_of(offsets),
                          gpu::rows_of<const T>(skip_input), y.cols(), gpu::rows_of<T>(dy),
                          accumulate_dy, gpu::data_of<float>(dweight), accumulate_dweight,
                          gpu::rows_of<T>(dskip), accumulate_dskip});
  });
}

}  // namespace tephra::kernel

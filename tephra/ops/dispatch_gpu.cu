// SPDX-License-Identifier: Apache-2.0
// The plan is a stable counting sort that stays on the device, in one launch: a block for each
// class counts its tokens and those of the classes before it, and places its own.
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/dispatch.h"

namespace tephra::kernel {
namespace {

__device__ int class_of(const int32_t* expert, int64_t token, int experts) {
  return expert[token] < experts ? expert[token] : experts;
}

// Before each thread of the block: the sum of what the threads with a lower number give.
__device__ int sum_before(int value) {
  __shared__ int sums[gpu::kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  sums[thread] = value;
  __syncthreads();
  for (int step = 1; step < gpu::kThreads; step *= 2) {
    const int lower = thread >= step ? sums[thread - step] : 0;
    __syncthreads();
    sums[thread] += lower;
    __syncthreads();
  }
  return sums[thread] - value;
}

// Each thread has a stretch of the tokens; the class after the last expert is for the skipped.
__global__ void place_tokens(const int32_t* expert, int64_t tokens, int experts, int32_t* offsets,
                             int32_t* order, int32_t* place) {
  const int own = static_cast<int>(blockIdx.x);
  const int64_t each = (tokens + gpu::kThreads - 1) / gpu::kThreads;
  const int64_t begin = threadIdx.x * each;
  const int64_t end = begin + each < tokens ? begin + each : tokens;
  int mine = 0, lower = 0;
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    const int c = class_of(expert, i, experts);
    mine += c == own ? 1 : 0;
    lower += c < own ? 1 : 0;
  }
  const int first = gpu::block_sum(lower);
  if (threadIdx.x == 0) offsets[own] = first;
  int32_t at = first + sum_before(mine);
  for (int64_t i = begin; i < end; ++i) {
    if (class_of(expert, i, experts) != own) continue;
    order[at] = static_cast<int32_t>(i);
    place[i] = at++;
  }
}

template <class T>
struct GatherColumns {
  gpu::Rows<const T> from;
  const int32_t *order, *routed;
  gpu::Rows<T> to;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    gpu::store(to[r] + c, r < *routed ? gpu::load<W>(from[order[r]] + c) : gpu::Floats<W>{});
  }
};

template <class T>
struct ScatterColumns {
  gpu::Rows<const T> from;
  const int32_t *order, *routed;
  gpu::Rows<T> to;
  bool accumulate;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto value = r < *routed ? gpu::load<W>(from[r] + c) : gpu::Floats<W>{};
    gpu::write(to[order[r]] + c, value, accumulate);
  }
};

template <class T>
struct CombineColumns {
  gpu::Rows<const T> y;
  const float* weight;
  const int32_t *order, *routed;
  gpu::Rows<const T> skip;
  gpu::Rows<T> out;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const int64_t token = order[r];
    gpu::Floats<W> value;
    if (r < *routed) {
      value = gpu::load<W>(y[r] + c);
    } else if (skip) {
      value = gpu::load<W>(skip[token] + c);
    }
    const float w = weight[token];
#pragma unroll
    for (int i = 0; i < W; ++i) value[i] *= w;
    gpu::store(out[token] + c, value);
  }
};

template <class T, int W>
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
    const gpu::Floats<W> zero;
    for (int64_t c = threadIdx.x * W; c < width; c += blockDim.x * W) {
      auto d = gpu::load<W>(dout[token] + c);
      const auto v = value ? gpu::load<W>(value + c) : zero;
#pragma unroll
      for (int i = 0; i < W; ++i) {
        dot += d[i] * v[i];
        d[i] *= w;
      }
      if (dy) gpu::write(dy[r] + c, to_expert ? d : zero, accumulate_dy);
      if (dskip) gpu::write(dskip[token] + c, to_expert ? zero : d, accumulate_dskip);
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
  stream.launch(place_tokens, {.blocks = classes, .threads = gpu::kThreads}, expert.data<int32_t>(),
                expert.numel(), classes - 1, offsets.data<int32_t>(), order.data<int32_t>(),
                place.data<int32_t>());
}

void GatherRows::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(from.dtype(), [&]<class T>() {
    const GatherColumns<T> f{gpu::rows_of<const T>(from), order.data<int32_t>(), routed_of(offsets),
                             gpu::rows_of<T>(to)};
    gpu::for_each_wide(stream, to.rows(), to.cols(), gpu::are_wide(to.cols(), f.from, f.to), f);
  });
}

void ScatterRows::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(from.dtype(), [&]<class T>() {
    const ScatterColumns<T> f{gpu::rows_of<const T>(from), order.data<int32_t>(),
                              routed_of(offsets), gpu::rows_of<T>(to), accumulate};
    gpu::for_each_wide(stream, from.rows(), from.cols(), gpu::are_wide(from.cols(), f.from, f.to),
                       f);
  });
}

void CombineRows::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(y.dtype(), [&]<class T>() {
    const CombineColumns<T> f{gpu::rows_of<const T>(y),
                              weight.data<float>(),
                              order.data<int32_t>(),
                              routed_of(offsets),
                              gpu::rows_of<const T>(skip_input),
                              gpu::rows_of<T>(out)};
    gpu::for_each_wide(stream, y.rows(), y.cols(), gpu::are_wide(y.cols(), f.y, f.skip, f.out), f);
  });
}

void CombineRowsGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(y.dtype(), [&]<class T>() {
    const auto run = [&]<int W>() {
      gpu::for_each_row(
          stream, y.rows(),
          CombineGradRow<T, W>{gpu::rows_of<const T>(dout), gpu::rows_of<const T>(y),
                               weight.data<float>(), order.data<int32_t>(), routed_of(offsets),
                               gpu::rows_of<const T>(skip_input), y.cols(), gpu::rows_of<T>(dy),
                               accumulate_dy, gpu::data_of<float>(dweight), accumulate_dweight,
                               gpu::rows_of<T>(dskip), accumulate_dskip});
    };
    const bool wide =
        gpu::are_wide(y.cols(), gpu::rows_of<T>(dout), gpu::rows_of<T>(y),
                      gpu::rows_of<T>(skip_input), gpu::rows_of<T>(dy), gpu::rows_of<T>(dskip));
    if (wide) {
      run.template operator()<gpu::kWide>();
    } else {
      run.template operator()<1>();
    }
  });
}

}  // namespace tephra::kernel

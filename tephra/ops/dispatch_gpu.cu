// SPDX-License-Identifier: Apache-2.0
// The plan is a stable counting sort that stays on the device, in one launch: a block for each
// class counts its tokens and those of the classes before it, and places its own.
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/dispatch.h"

namespace tephra::kernel {
namespace {

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

// Each thread has a stretch of the tokens, read W at a time; the class after the last expert is for
// the skipped.
template <int W>
__global__ void place_tokens(const int32_t* expert, int64_t tokens, int experts, int32_t* offsets,
                             int32_t* order, int32_t* place) {
  const int own = static_cast<int>(blockIdx.x);
  const auto class_of = [&](int32_t chosen) { return chosen < experts ? chosen : experts; };
  const int64_t each = (tokens + gpu::kThreads * W - 1) / (gpu::kThreads * W) * W;
  const int64_t begin = threadIdx.x * each;
  const int64_t end = begin + each < tokens ? begin + each : tokens;
  int mine = 0, lower = 0;
#pragma unroll 4
  for (int64_t i = begin; i < end; i += W) {
    const auto chosen = gpu::load_packed<W>(expert + i);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      mine += class_of(chosen[k]) == own ? 1 : 0;
      lower += class_of(chosen[k]) < own ? 1 : 0;
    }
  }
  const int first = gpu::block_sum(lower);
  if (threadIdx.x == 0) offsets[own] = first;
  int32_t at = first + sum_before(mine);
  for (int64_t i = begin; i < end; i += W) {
    const auto chosen = gpu::load_packed<W>(expert + i);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      if (class_of(chosen[k]) != own) continue;
      order[at] = static_cast<int32_t>(i + k);
      place[i + k] = at++;
    }
  }
}

// W columns on their way, in whole words: several rows are asked for before one has come.
template <int W, class T>
struct MovedColumns {
  gpu::Bits128 words[W * sizeof(T) / 16] = {};

  __device__ void load(const T* from) { *this = *reinterpret_cast<const MovedColumns*>(from); }
  __device__ void store(T* to) const { *reinterpret_cast<MovedColumns*>(to) = *this; }
};

template <class T>
struct MovedColumns<1, T> {
  T value = T(0.0f);

  __device__ void load(const T* from) { value = *from; }
  __device__ void store(T* to) const { *to = value; }
};

// A thread has the same columns of kRowsEach rows, `apart` from each other.
constexpr int kRowsEach = 4;

template <class T, bool kGather>
struct MoveColumns {
  gpu::Rows<const T> from;
  const int32_t *order, *routed;
  gpu::Rows<T> to;
  int64_t rows, apart;

  template <int W>
  __device__ void run(int64_t first, int64_t c) const {
    const int64_t end = *routed;
    MovedColumns<W, T> moved[kRowsEach];
#pragma unroll
    for (int k = 0; k < kRowsEach; ++k) {
      const int64_t r = first + k * apart;
      if (r < rows && r < end) moved[k].load(from[kGather ? order[r] : r] + c);
    }
#pragma unroll
    for (int k = 0; k < kRowsEach; ++k) {
      const int64_t r = first + k * apart;
      if (r < rows) moved[k].store(to[kGather ? r : order[r]] + c);
    }
  }
};

template <bool kGather>
void move_rows(gpu::Stream& stream, const Tensor& from, const Tensor& order, const int32_t* routed,
               const Tensor& to) {
  gpu::visit_float(from.dtype(), [&]<class T>() {
    const int64_t apart = gpu::blocks_for(from.rows(), kRowsEach);
    const MoveColumns<T, kGather> f{gpu::rows_of<const T>(from), order.data<int32_t>(), routed,
                                    gpu::rows_of<T>(to),         from.rows(),           apart};
    gpu::for_each_wide(stream, apart, from.cols(), gpu::are_wide(from.cols(), f.from, f.to), f);
  });
}

template <class T>
struct AddScatteredColumns {
  gpu::Rows<const T> from;
  const int32_t *order, *routed;
  gpu::Rows<T> to;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    if (r < *routed) gpu::write(to[order[r]] + c, gpu::load<W>(from[r] + c), true);
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
  constexpr int kTogether = 4;
  const int classes = static_cast<int>(offsets.numel());
  const bool together = expert.numel() % kTogether == 0 && gpu::is_wide(expert.data<int32_t>());
  stream.launch(together ? place_tokens<kTogether> : place_tokens<1>,
                {.blocks = classes, .threads = gpu::kThreads}, expert.data<int32_t>(),
                expert.numel(), classes - 1, offsets.data<int32_t>(), order.data<int32_t>(),
                place.data<int32_t>());
}

void GatherRows::on_gpu(gpu::Stream& stream) const {
  move_rows<true>(stream, from, order, routed_of(offsets), to);
}

void ScatterRows::on_gpu(gpu::Stream& stream) const {
  if (!accumulate) return move_rows<false>(stream, from, order, routed_of(offsets), to);
  gpu::visit_float(from.dtype(), [&]<class T>() {
    const AddScatteredColumns<T> f{gpu::rows_of<const T>(from), order.data<int32_t>(),
                                   routed_of(offsets), gpu::rows_of<T>(to)};
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

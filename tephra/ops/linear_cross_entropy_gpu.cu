// SPDX-License-Identifier: Apache-2.0
// Logits of some tokens at a time; a row's loss and gradient replace them before the next.
#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/ops/linear_cross_entropy.h"
#include "tephra/ops/linear_cross_entropy_exp.h"

namespace tephra::kernel {
namespace {

template <class T>
struct HeadBiasElement {
  const T* bias;
  gpu::Rows<float> logits;

  __device__ void operator()(int64_t r, int64_t c) const { logits[r][c] = float(bias[c]); }
};

// The sum of exponentials of what a thread has seen, and the largest exponent, which is taken out.
struct RunningSum {
  float largest = -INFINITY, sum = 0;

  template <int W>
  __device__ void add(const gpu::Floats<W>& v) {
    float most = largest;
#pragma unroll
    for (int i = 0; i < W; ++i) most = fmaxf(most, v[i]);
    const float shift = most == -INFINITY ? 0.0f : most;  // a NaN must reach the sum
    sum *= expf(largest - shift);
    largest = most;
#pragma unroll
    for (int i = 0; i < W; ++i) sum += expf(v[i] - shift);
  }
};

// The loss of a row, and its logits turned into scale * (softmax - onehot) where `d` is given. W
// columns at a time; the logits are read twice.
template <class T, int W>
struct CrossEntropyRow {
  gpu::Rows<float> logits;
  const int32_t* targets;
  int64_t width;
  float scale;
  float* losses;
  gpu::Rows<T> d;

  __device__ void operator()(int64_t r) const {
    const float* row = logits[r];
    const int64_t target = targets[r], first = threadIdx.x * W, step = blockDim.x * W;
    if (target < 0) {
      if (threadIdx.x == 0) losses[r] = 0;
      for (int64_t c = first; d && c < width; c += step) gpu::store(d[r] + c, gpu::Floats<W>{});
      return;
    }
    RunningSum seen;
#pragma unroll 2
    for (int64_t c = first; c < width; c += step) seen.add(gpu::load<W>(row + c));
    const float largest = gpu::block_max(seen.largest);
    const float own = seen.sum == 0 ? 0.0f : seen.sum * expf(seen.largest - largest);
    const float sum = gpu::block_sum(own);
    if (threadIdx.x == 0) losses[r] = logf(sum) + largest - row[target];
    if (!d) return;
    __syncthreads();  // d may be the logits themselves
    const float factor = scale / sum;
#pragma unroll 2
    for (int64_t c = first; c < width; c += step) {
      auto v = gpu::load<W>(row + c);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        v[i] = expf(v[i] - largest) * factor - (c + i == target ? scale : 0.0f);
      }
      gpu::store(d[r] + c, v);
    }
  }
};

// Gradients of a sum over no tokens.
void clear_gradients(const LinearCrossEntropy& k) {
  if (k.dweight && !k.accumulate_dweight) fill(k.dweight, 0);
  if (k.dbias && !k.accumulate_dbias) fill(k.dbias, 0);
}

template <class T>
class LossChunks {
 public:
  LossChunks(gpu::Stream& stream, const LinearCrossEntropy& k)
      : stream_(stream),
        k_(k),
        number_(std::is_same_v<T, float> ? gpu::Number::f32 : gpu::Number::bf16) {
    const int64_t vocabulary = k.weight.rows();
    rows_ = gpu_logit_rows(k.h.rows(), vocabulary, sizeof(float));
    logits_ = Tensor({rows_, vocabulary}, DType::f32, k.h.device(), Purpose::workspace);
    if (!k.dh && !k.dweight && !k.dbias) return;
    d_ = std::is_same_v<T, float>
             ? logits_
             : Tensor(logits_.shape(), dtype_of<T>(), k.h.device(), Purpose::workspace);
  }

  void run() {
    for (int64_t at = 0; at < k_.h.rows(); at += rows_) {
      chunk(at, std::min(rows_, k_.h.rows() - at));
    }
  }

 private:
  void chunk(int64_t at, int64_t rows) {
    const Tensor h = k_.h.slice_rows(at, at + rows), &w = k_.weight;
    const int64_t vocabulary = w.rows(), width = w.cols();
    const auto logits = gpu::rows_of<float>(logits_);
    if (k_.bias) {
      gpu::for_each(stream_, rows, vocabulary,
                    HeadBiasElement<T>{k_.bias.template data<T>(), logits});
    }
    gpu::gemm(stream_, {rows, vocabulary, width, h.raw(), h.row_stride(), false, w.raw(),
                        w.row_stride(), true, logits_.raw(), vocabulary, number_, gpu::Number::f32,
                        1.0f, k_.bias ? 1.0f : 0.0f});
    if (gpu::are_wide(vocabulary, logits, gpu::rows_of<T>(d_))) {
      losses<gpu::kWide>(at, rows);
    } else {
      losses<1>(at, rows);
    }
    if (d_) gradients(at, rows, h);
  }

  template <int W>
  void losses(int64_t at, int64_t rows) {
    gpu::for_each_row(stream_, rows,
                      CrossEntropyRow<T, W>{
                          gpu::rows_of<float>(logits_), k_.targets.template data<int32_t>() + at,
                          k_.weight.rows(), static_cast<float>(k_.scale),
                          k_.losses.template data<float>() + at, gpu::rows_of<T>(d_)});
  }

  void gradients(int64_t at, int64_t rows, const Tensor& h) {
    const Tensor& w = k_.weight;
    const int64_t vocabulary = w.rows(), width = w.cols();
    if (k_.dh) {
      const Tensor dh = k_.dh.slice_rows(at, at + rows);
      gpu::gemm(stream_, {rows, width, vocabulary, d_.raw(), vocabulary, false, w.raw(),
                          w.row_stride(), false, dh.raw(), dh.row_stride(), number_, number_});
    }
    if (k_.dweight) {
      gpu::gemm(stream_, {vocabulary, width, rows, d_.raw(), vocabulary, true, h.raw(),
                          h.row_stride(), false, k_.dweight.raw(), k_.dweight.row_stride(), number_,
                          gpu::Number::f32, 1.0f, k_.accumulate_dweight || at > 0 ? 1.0f : 0.0f});
    }
    if (k_.dbias) {
      gpu::sum_rows(stream_, gpu::rows_of<const T>(d_), rows, vocabulary,
                    k_.dbias.template data<float>(), k_.accumulate_dbias || at > 0);
    }
  }

  gpu::Stream& stream_;
  const LinearCrossEntropy& k_;
  gpu::Number number_;
  int64_t rows_;
  Tensor logits_, d_;
};

// In double, by one block, in one order.
__global__ void sum_losses(const float* losses, int64_t count, double scale, float* loss) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += losses[i];
  sum = gpu::block_sum(sum);
  if (threadIdx.x == 0) *loss = static_cast<float>(scale * sum);
}

}  // namespace

void LinearCrossEntropy::on_gpu(gpu::Stream& stream) const {
  if (h.rows() == 0) return clear_gradients(*this);
  if (loss_by_exponentials(stream, *this)) return;
  gpu::visit_float(h.dtype(), [&]<class T>() { LossChunks<T>(stream, *this).run(); });
}

void ScaledSum::on_gpu(gpu::Stream& stream) const {
  stream.launch(sum_losses, {.threads = gpu::kThreads}, losses.data<float>(), losses.numel(), scale,
                loss.data<float>());
}

}  // namespace tephra::kernel

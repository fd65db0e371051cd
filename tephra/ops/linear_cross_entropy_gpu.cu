// SPDX-License-Identifier: Apache-2.0
// Logits of some tokens at a time; a row's loss and gradient replace them before the next.
#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/ops/linear_cross_entropy.h"

namespace tephra::kernel {
namespace {

constexpr int64_t kLogitBytes = int64_t{2} << 30;

template <class T>
struct HeadBiasElement {
  const T* bias;
  gpu::Rows<float> logits;

  __device__ void operator()(int64_t r, int64_t c) const { logits[r][c] = float(bias[c]); }
};

// The loss of a row, and its logits turned into scale * (softmax - onehot) where `d` is given.
template <class T>
struct CrossEntropyRow {
  gpu::Rows<float> logits;
  const int32_t* targets;
  int64_t width;
  float scale;
  float* losses;
  gpu::Rows<T> d;

  __device__ void operator()(int64_t r) const {
    const float* row = logits[r];
    const int64_t target = targets[r];
    if (target < 0) {
      if (threadIdx.x == 0) losses[r] = 0;
      for (int64_t c = threadIdx.x; d && c < width; c += blockDim.x) d[r][c] = T(0.0f);
      return;
    }
    float largest = -INFINITY;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) largest = fmaxf(largest, row[c]);
    largest = gpu::block_max(largest);
    float sum = 0;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) sum += expf(row[c] - largest);
    sum = gpu::block_sum(sum);
    if (threadIdx.x == 0) losses[r] = logf(sum) + largest - row[target];
    if (!d) return;
    __syncthreads();  // d may be the logits themselves
    const float factor = scale / sum;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      const float p = expf(row[c] - largest) * factor;
      d[r][c] = T(c == target ? p - scale : p);
    }
  }
};

template <class T>
struct HeadBiasTerm {
  gpu::Rows<const T> d;

  __device__ float operator()(int64_t r, int64_t c) const { return float(d[r][c]); }
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
    rows_ = std::clamp<int64_t>(kLogitBytes / (4 * vocabulary), 16, k.h.rows());
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
    gpu::for_each_row(
        stream_, rows,
        CrossEntropyRow<T>{logits, k_.targets.template data<int32_t>() + at, vocabulary,
                           static_cast<float>(k_.scale), k_.losses.template data<float>() + at,
                           gpu::rows_of<T>(d_)});
    if (d_) gradients(at, rows, h);
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
      gpu::sum_rows(stream_, rows, vocabulary, HeadBiasTerm<T>{gpu::rows_of<const T>(d_)},
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
  gpu::visit_float(h.dtype(), [&]<class T>() { LossChunks<T>(stream, *this).run(); });
}

void ScaledSum::on_gpu(gpu::Stream& stream) const {
  stream.launch(sum_losses, {.threads = gpu::kThreads}, losses.data<float>(), losses.numel(), scale,
                loss.data<float>());
}

}  // namespace tephra::kernel

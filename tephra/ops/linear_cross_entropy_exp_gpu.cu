// SPDX-License-Identifier: Apache-2.0
// The loss in bf16 on Hopper: products leave exponentials (device/gpu/exp_gemm.h), which are the
// gradient of the logits but for a factor of each row and the target's column. The factors go to
// the rows of the other operand and of the result, so nothing reads the logits but two products.
#include "tephra/ops/linear_cross_entropy_exp.h"

#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/exp_gemm.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/device/gpu/grouped_gemm.h"

namespace tephra::kernel {
namespace {

// What is known of a row once all its tiles are: exponentials count from `shift` on.
struct ExpRow {
  float shift, sum, target_logit;
  bool mixed;  // some tile has another shift

  __device__ float loss() const { return logf(sum) + shift - target_logit; }
};

// The statistics of kExpRows rows a block, over tiles in kExpGroups stretches that are then added
// in order.
constexpr int kExpRows = 8, kExpGroups = gpu::kThreads / kExpRows;

__device__ float largest_of(const float (&parts)[kExpGroups][kExpRows], int row) {
  float largest = parts[0][row];
  for (int g = 1; g < kExpGroups; ++g) largest = fmaxf(largest, parts[g][row]);
  return largest;
}

__global__ void exp_statistics(const float* sums, const float* shifts, const float* target_logits,
                               const int32_t* targets, int64_t rows, int64_t tiles, float* losses,
                               ExpRow* found) {
  __shared__ float largest[kExpGroups][kExpRows], smallest[kExpGroups][kExpRows];
  __shared__ float total[kExpGroups][kExpRows];
  const int group = static_cast<int>(threadIdx.x) / kExpRows;
  const int row = static_cast<int>(threadIdx.x) % kExpRows;
  const int64_t r = int64_t{blockIdx.x} * kExpRows + row;
  const int64_t each = (tiles + kExpGroups - 1) / kExpGroups, begin = group * each;
  const int64_t end = r < rows ? (begin + each < tiles ? begin + each : tiles) : begin;
  float most = -INFINITY, least = -INFINITY;  // of the shifts, the second of them negated
#pragma unroll 4
  for (int64_t t = begin; t < end; ++t) {
    const float shift = shifts[t * rows + r];
    most = fmaxf(most, shift);
    least = fmaxf(least, -shift);
  }
  largest[group][row] = most;
  smallest[group][row] = least;
  __syncthreads();
  const float shift = largest_of(largest, row);
  float sum = 0;
#pragma unroll 4
  for (int64_t t = begin; t < end; ++t) {
    const float own = shifts[t * rows + r];
    sum += sums[t * rows + r] * (own == shift ? 1.0f : expf(own - shift));
  }
  total[group][row] = sum;
  __syncthreads();
  if (group > 0 || r >= rows) return;
  for (int g = 1; g < kExpGroups; ++g) sum += total[g][row];
  const bool counts = targets[r] >= 0;
  const ExpRow f{shift, sum, counts ? target_logits[r] : 0.0f, largest_of(smallest, row) != -shift};
  losses[r] = counts ? f.loss() : 0.0f;
  found[r] = f;
}

// By a block for each row: exponentials on the row's one scale, the target's column, and h times
// the row's factor. An ignored row is zeros, whatever it was.
struct ExpFinishRow {
  const ExpRow* found;
  const int32_t* targets;
  const float* shifts;  // [tiles, rows]
  int64_t rows, vocabulary, width;
  float scale;
  gpu::Rows<bf16> e;
  gpu::Rows<const bf16> h;
  gpu::Rows<bf16> scaled;
  float* factors;

  template <class F>
  __device__ void each_wide(int64_t count, F f) const {
    for (int64_t c = threadIdx.x * gpu::kWide; c < count; c += blockDim.x * gpu::kWide) f(c);
  }

  __device__ void operator()(int64_t r) const {
    using Wide = gpu::Floats<gpu::kWide>;
    const ExpRow row = found[r];
    const int64_t target = targets[r];
    const float factor = target < 0 ? 0.0f : scale / row.sum;
    if (threadIdx.x == 0) factors[r] = factor;
    if (target < 0) {
      each_wide(vocabulary, [&](int64_t c) { gpu::store(e[r] + c, Wide{}); });
      each_wide(width, [&](int64_t c) { gpu::store(scaled[r] + c, Wide{}); });
      return;
    }
    if (row.mixed) rescale(r, row.shift);
    each_wide(width, [&](int64_t c) {
      auto v = gpu::load<gpu::kWide>(h[r] + c);
#pragma unroll
      for (int i = 0; i < gpu::kWide; ++i) v[i] *= factor;
      gpu::store(scaled[r] + c, v);
    });
    __syncthreads();  // the target's column is written last
    if (threadIdx.x == 0) e[r][target] = bf16(expf(row.target_logit - row.shift) - row.sum);
  }

  __device__ void rescale(int64_t r, float shift) const {
    each_wide(vocabulary, [&](int64_t c) {
      const float own = shifts[c / gpu::kExpTileColumns * rows + r];
      if (own == shift) return;
      const float by = expf(own - shift);
      auto v = gpu::load<gpu::kWide>(e[r] + c);
#pragma unroll
      for (int i = 0; i < gpu::kWide; ++i) v[i] *= by;
      gpu::store(e[r] + c, v);
    });
  }
};

struct ExpGradientColumns {
  gpu::Rows<const float> product;
  const float* factors;
  gpu::Rows<bf16> dh;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    auto v = gpu::load<W>(product[r] + c);
#pragma unroll
    for (int i = 0; i < W; ++i) v[i] *= factors[r];
    gpu::store(dh[r] + c, v);
  }
};

struct ExpBounds {
  int32_t* bounds;
  int64_t rows;

  __device__ void operator()(int64_t i) const { bounds[i] = i == 0 ? 0 : int32_t(rows); }
};

// Rows whose exponentials exist at the same time.
int64_t exp_rows(const LinearCrossEntropy& k) {
  return gpu_logit_rows(k.h.rows(), k.weight.rows(), int64_t{sizeof(bf16)});
}

class ExpChunks {
 public:
  ExpChunks(gpu::Stream& stream, const LinearCrossEntropy& k)
      : stream_(stream),
        k_(k),
        rows_(exp_rows(k)),
        vocabulary_(k.weight.rows()),
        width_(k.weight.cols()),
        tiles_(gpu::blocks_for(vocabulary_, gpu::kExpTileColumns)) {
    sums_ = make({2 * tiles_, rows_}, DType::f32);
    logits_ = make({rows_}, DType::f32);
    found_ = make({rows_, int64_t{sizeof(ExpRow)} / 4}, DType::f32);
    if (!k.dh && !k.dweight) return;
    e_ = make({rows_, vocabulary_}, DType::bf16);
    scaled_ = make({rows_, width_}, DType::bf16);
    factors_ = make({rows_}, DType::f32);
    if (k.dh) product_ = make({rows_, width_}, DType::f32);
  }

  void run() {
    for (int64_t at = 0; at < k_.h.rows(); at += rows_) {
      const int64_t rows = std::min(rows_, k_.h.rows() - at);
      losses(at, rows);
      if (e_) gradients(at, rows);
    }
  }

 private:
  gpu::ExpGemm product(int64_t at, int64_t rows) const {
    const Tensor h = k_.h.slice_rows(at, at + rows);
    float* sums = sums_.data<float>();
    return {rows,
            vocabulary_,
            width_,
            h.raw(),
            h.row_stride(),
            k_.weight.raw(),
            k_.weight.row_stride(),
            e_ ? e_.raw() : nullptr,
            k_.targets.data<int32_t>() + at,
            sums,
            sums + tiles_ * rows,
            logits_.data<float>()};
  }

  Tensor make(const Shape& shape, DType dtype) const {
    return {shape, dtype, k_.h.device(), Purpose::workspace};
  }

  void losses(int64_t at, int64_t rows) {
    const gpu::ExpGemm g = product(at, rows);
    if constexpr (gpu::kHasFastPaths) gpu::exp_gemm_hopper(stream_, g);
    stream_.launch(exp_statistics,
                   {.blocks = gpu::blocks_for(rows, kExpRows), .threads = gpu::kThreads}, g.sums,
                   g.shifts, g.target_logits, g.targets, rows, tiles_, k_.losses.data<float>() + at,
                   reinterpret_cast<ExpRow*>(found_.raw()));
  }

  void gradients(int64_t at, int64_t rows) {
    const gpu::ExpGemm g = product(at, rows);
    gpu::for_each_row(
        stream_, rows,
        ExpFinishRow{reinterpret_cast<const ExpRow*>(found_.raw()), g.targets, g.shifts, rows,
                     vocabulary_, width_, static_cast<float>(k_.scale), gpu::rows_of<bf16>(e_),
                     gpu::rows_of<const bf16>(k_.h.slice_rows(at, at + rows)),
                     gpu::rows_of<bf16>(scaled_), factors_.data<float>()});
    if (k_.dh) input_gradient(at, rows);
    if (k_.dweight && !weight_gradient_by_tiles(at, rows)) {
      gpu::gemm(stream_,
                {vocabulary_, width_, rows, e_.raw(), vocabulary_, true, scaled_.raw(), width_,
                 false, k_.dweight.raw(), k_.dweight.row_stride(), gpu::Number::bf16,
                 gpu::Number::f32, 1.0f, k_.accumulate_dweight || at > 0 ? 1.0f : 0.0f});
    }
  }

  // As that of a single expert: sums are added in the L2 cache. False when its tiles do not fit.
  bool weight_gradient_by_tiles(int64_t at, int64_t rows) {
    if (k_.dweight.row_stride() != width_) return false;
    const Tensor bounds = make({2}, DType::i32);
    gpu::for_each_index(stream_, 2, ExpBounds{bounds.data<int32_t>(), rows});
    if constexpr (gpu::kHasFastPaths) {
      return gpu::grouped_gemm_hopper(stream_, {.product = gpu::GroupedProduct::weight_gradient,
                                                .experts = 1,
                                                .rows = rows,
                                                .in = width_,
                                                .out = vocabulary_,
                                                .offsets = bounds.data<int32_t>(),
                                                .a = e_.raw(),
                                                .a_stride = vocabulary_,
                                                .b = scaled_.raw(),
                                                .b_stride = width_,
                                                .c = k_.dweight.raw(),
                                                .c_stride = width_,
                                                .accumulate = k_.accumulate_dweight || at > 0});
    }
    return false;
  }

  void input_gradient(int64_t at, int64_t rows) {
    const Tensor& w = k_.weight;
    const Tensor dh = k_.dh.slice_rows(at, at + rows);
    gpu::gemm(stream_,
              {rows, width_, vocabulary_, e_.raw(), vocabulary_, false, w.raw(), w.row_stride(),
               false, product_.raw(), width_, gpu::Number::bf16, gpu::Number::f32});
    const ExpGradientColumns f{gpu::rows_of<const float>(product_), factors_.data<float>(),
                               gpu::rows_of<bf16>(dh)};
    gpu::for_each_wide(stream_, rows, width_, gpu::are_wide(width_, f.product, f.dh), f);
  }

  gpu::Stream& stream_;
  const LinearCrossEntropy& k_;
  int64_t rows_, vocabulary_, width_, tiles_;
  Tensor sums_, logits_, found_, e_, scaled_, factors_, product_;
};

}  // namespace

bool loss_by_exponentials(gpu::Stream& stream, const LinearCrossEntropy& k) {
  if constexpr (gpu::kHasFastPaths) {
    const bool wide = k.h.dtype() == DType::bf16 && !k.bias && !gpu::only_portable() &&
                      gpu::are_wide(k.h.cols(), gpu::rows_of<bf16>(k.h));
    const gpu::ExpGemm form{.rows = k.h.rows(),
                            .columns = k.weight.rows(),
                            .depth = k.h.cols(),
                            .a = k.h.raw(),
                            .a_stride = k.h.row_stride(),
                            .b = k.weight.raw(),
                            .b_stride = k.weight.row_stride()};
    if (!wide || !gpu::takes_exp_gemm(stream, form)) return false;
    ExpChunks(stream, k).run();
    return true;
  }
  return false;
}

}  // namespace tephra::kernel

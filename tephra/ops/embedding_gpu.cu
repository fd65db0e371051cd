// SPDX-License-Identifier: Apache-2.0
// The gradient without atomics: the first token with an id adds up the rows of all of them, in
// token order.
#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/packed.h"
#include "tephra/ops/embedding.h"

namespace tephra::kernel {
namespace {

template <class T>
struct EmbeddingColumns {
  const int32_t* ids;
  gpu::Rows<const T> table;
  gpu::Rows<T> y;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    gpu::store(y[r] + c, gpu::load<W>(table[ids[r]] + c));
  }
};

template <PackedFormat kFormat, class T>
struct PackedEmbeddingElement {
  const int32_t* ids;
  gpu::PackedPanels<kFormat> table;
  gpu::Rows<T> y;

  __device__ void operator()(int64_t r, int64_t c) const { y[r][c] = T(table.value(ids[r], c)); }
};

template <class T>
struct EmbeddingGradToken {
  gpu::Rows<const T> dy;
  const int32_t* ids;
  int64_t tokens, width;
  int32_t pad_id;
  gpu::Rows<float> dtable;

  __device__ bool is_first(int64_t r) const {
    const int32_t own = ids[r];
    int earlier = 0;
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < r; i += blockDim.x) earlier |= ids[i] == own;
    return __syncthreads_or(earlier) == 0;
  }
  // kAtOnce tokens between barriers; those with the id are marked by a byte each.
  __device__ void operator()(int64_t r) const {
    constexpr int kEach = 4, kAtOnce = kEach * gpu::kThreads, kWord = 8;
    __shared__ union {
      uint8_t mark[kAtOnce];
      uint64_t marks[kAtOnce / kWord];
    } equal;
    const int32_t own = ids[r];
    if (own == pad_id || !is_first(r)) return;
    for (int64_t base = r; base < tokens; base += kAtOnce) {
      int any = 0;
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int at = k * gpu::kThreads + static_cast<int>(threadIdx.x);
        const bool same = base + at < tokens && ids[base + at] == own;
        equal.mark[at] = same ? 1 : 0;
        any |= same ? 1 : 0;
      }
      if (__syncthreads_or(any) == 0) continue;
#pragma unroll 4
      for (int w = 0; w < kAtOnce / kWord; ++w) {
        if (equal.marks[w] == 0) continue;
        for (int k = w * kWord; k < (w + 1) * kWord; ++k) {
          if (equal.mark[k]) add_row(dtable[own], dy[base + k]);
        }
      }
      __syncthreads();  // the marks are read
    }
  }
  __device__ void add_row(float* out, const T* row) const {
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) out[c] += float(row[c]);
  }
};

}  // namespace

void Embedding::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(table.dtype(), [&]<class T>() {
    const EmbeddingColumns<T> f{ids.data<int32_t>(), gpu::rows_of<const T>(table),
                                gpu::rows_of<T>(y)};
    gpu::for_each_wide(stream, y.rows(), y.cols(), gpu::are_wide(y.cols(), f.table, f.y), f);
  });
}

void WideEmbedding::on_gpu(gpu::Stream& stream) const {
  require(table.is_packed(), "embedding: a table of bf16 gives no {} rows on a GPU", y.dtype());
  const PackedWeight& packed = table.packed();
  gpu::visit_packed(packed.format(), [&]<PackedFormat kFormat>() {
    gpu::visit_float(y.dtype(), [&]<class T>() {
      gpu::for_each(
          stream, y.rows(), y.cols(),
          PackedEmbeddingElement<kFormat, T>{ids.data<int32_t>(),
                                             {static_cast<const std::byte*>(packed.blocks().raw()),
                                              static_cast<int>(packed.matrix().layout.groups())},
                                             gpu::rows_of<T>(y)});
    });
  });
}

void EmbeddingGrad::on_gpu(gpu::Stream& stream) const {
  if (!accumulate) fill(dtable, 0);
  gpu::visit_float(dy.dtype(), [&]<class T>() {
    gpu::for_each_row(
        stream, dy.rows(),
        EmbeddingGradToken<T>{gpu::rows_of<const T>(dy), ids.data<int32_t>(), dy.rows(), dy.cols(),
                              static_cast<int32_t>(pad_id), gpu::rows_of<float>(dtable)});
  });
}

}  // namespace tephra::kernel

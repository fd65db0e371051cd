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
    int earlier = 0;
    for (int64_t i = threadIdx.x; i < r; i += blockDim.x) earlier |= ids[i] == ids[r];
    return __syncthreads_or(earlier) == 0;
  }
  __device__ void operator()(int64_t r) const {
    __shared__ int equal[gpu::kThreads];
    if (ids[r] == pad_id || !is_first(r)) return;
    float* out = dtable[ids[r]];
    for (int64_t base = r; base < tokens; base += gpu::kThreads) {
      const int64_t i = base + threadIdx.x;
      const int mine = i < tokens && ids[i] == ids[r] ? 1 : 0;
      if (__syncthreads_or(mine) == 0) continue;
      equal[threadIdx.x] = mine;
      __syncthreads();
      for (int k = 0; k < gpu::kThreads; ++k) {
        if (!equal[k]) continue;
        for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
          out[c] += float(dy[base + k][c]);
        }
      }
    }
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

// SPDX-License-Identifier: Apache-2.0
// Counts of whole numbers come out the same in any order, so threads add theirs as they come.
#include "tephra/core/gpu_kernel.h"
#include "tephra/optim/balance.h"

namespace tephra::kernel {
namespace {

constexpr int kChoicesEach = 8;

__global__ void count_choices(const int32_t* expert, const int32_t* real, int64_t tokens,
                              int classes, unsigned long long* counts) {
  auto* const class_counts = gpu::dynamic_shared<unsigned int>();
  for (int c = threadIdx.x; c < classes; c += blockDim.x) class_counts[c] = 0;
  __syncthreads();
  const int64_t first = int64_t{blockIdx.x} * blockDim.x * kChoicesEach + threadIdx.x;
  int chosen[kChoicesEach];
#pragma unroll
  for (int i = 0; i < kChoicesEach; ++i) {
    const int64_t t = first + int64_t{i} * blockDim.x;
    const bool counts_here = t < tokens && (!real || real[t] != 0);
    chosen[i] = counts_here ? expert[t] : classes;
  }
#pragma unroll
  for (int i = 0; i < kChoicesEach; ++i) {
    if (chosen[i] < classes) atomicAdd(class_counts + chosen[i], 1u);
  }
  __syncthreads();
  for (int c = threadIdx.x; c < classes; c += blockDim.x) {
    if (class_counts[c] > 0)
      atomicAdd(counts + c, static_cast<unsigned long long>(class_counts[c]));
  }
}

}  // namespace

void CountExperts::on_gpu(gpu::Stream& stream) const {
  const int64_t tokens = expert_N.numel(), classes = counts.numel();
  stream.launch(count_choices,
                {.blocks = gpu::blocks_for(tokens, int64_t{gpu::kThreads} * kChoicesEach),
                 .threads = gpu::kThreads,
                 .shared_bytes = classes * int64_t{sizeof(unsigned int)}},
                expert_N.data<int32_t>(), gpu::data_of<const int32_t>(real_N), tokens,
                static_cast<int>(classes),
                reinterpret_cast<unsigned long long*>(counts.data<int64_t>()));
}

}  // namespace tephra::kernel

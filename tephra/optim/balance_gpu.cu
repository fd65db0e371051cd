// SPDX-License-Identifier: Apache-2.0
// A block for each class reads all choices.
#include "tephra/core/gpu_kernel.h"
#include "tephra/optim/balance.h"

namespace tephra::kernel {
namespace {

struct CountOfClass {
  const int32_t* expert;
  const int32_t* real;  // null: all of them
  int64_t tokens;
  int64_t* counts;

  __device__ void operator()(int64_t own) const {
    int count = 0;
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < tokens; i += blockDim.x) {
      count += expert[i] == own && (!real || real[i] != 0) ? 1 : 0;
    }
    count = gpu::block_sum(count);
    if (threadIdx.x == 0) counts[own] += count;
  }
};

}  // namespace

void CountExperts::on_gpu(gpu::Stream& stream) const {
  gpu::for_each_row(
      stream, counts.numel(),
      CountOfClass{expert_N.data<int32_t>(), real_N ? real_N.data<int32_t>() : nullptr,
                   expert_N.numel(), counts.data<int64_t>()});
}

}  // namespace tephra::kernel

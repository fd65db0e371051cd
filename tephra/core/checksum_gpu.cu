// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/checksum.h"
#include "tephra/core/gpu_kernel.h"

namespace tephra::kernel {
namespace {

struct ChecksumPart {
  const uint16_t* words;
  int64_t count;
  int64_t* parts;

  __device__ void operator()(int64_t part) const {
    const int64_t step = Checksum::kParts * blockDim.x;
    unsigned long long sum = 0;
#pragma unroll 4
    for (int64_t i = part * blockDim.x + threadIdx.x; i < count; i += step) {
      sum += mixed_word(static_cast<uint64_t>(i), words[i]);
    }
    sum = gpu::block_sum(sum);
    if (threadIdx.x == 0) parts[part] = static_cast<int64_t>(sum);
  }
};

}  // namespace

void Checksum::on_gpu(gpu::Stream& stream) const {
  gpu::for_each_row(stream, kParts,
                    ChecksumPart{static_cast<const uint16_t*>(x.raw()),
                                 x.numel() * size_of(x.dtype()) / 2, parts.data<int64_t>()});
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
// All of cca_qkv forward in one kernel: a block walks over tiles of a head, and the blocks of
// queries, which have the smaller means to make and end first, move the values.
#include "tephra/ops/cca_qkv_heads_gpu.h"
#include "tephra/ops/cca_qkv_steps.h"
#include "tephra/ops/rotary_table_gpu.h"

namespace tephra::kernel {
namespace {

using namespace cca;

// Blocks (head, part of the tiles).
template <int kDim>
__global__ void __launch_bounds__(kTileThreads, 2)
    cca_qkv_tiles(HeadArgs a, gpu::Rows<bf16> out, ValueRows values) {
  auto& m = *gpu::dynamic_shared<Tile<kDim>>();
  const int head = static_cast<int>(blockIdx.x);
  run_tiles<false>(m, a, head, static_cast<int>(blockIdx.y) * kTokens,
                   static_cast<int>(gridDim.y) * kTokens, a.z.tokens, HeadRows{}, out);
  if (head >= a.nq || values.half == 0) return;
  const int64_t blocks = int64_t{a.nq} * gridDim.y, block = int64_t{head} * gridDim.y + blockIdx.y;
  const auto first = [&](int64_t b) { return static_cast<int>(a.z.tokens * b / blocks); };
  shift_values<false>(values, first(block), first(block + 1));
}

}  // namespace

void CcaQkv::on_gpu(gpu::Stream& stream) const {
  if (!takes_fused(stream, *this, {&z, &out})) {
    return cca_qkv_steps(*this, [&](const auto& kernel) { kernel.on_gpu(stream); });
  }
  const Tensor angles = gpu::kept_rotary_table(stream, z.rows(), form.rope);
  visit_heads(form.rope.head_dim, [&]<int kDim>() {
    stream.allow_shared(cca_qkv_tiles<kDim>, sizeof(Tile<kDim>));
    stream.launch(cca_qkv_tiles<kDim>,
                  {.blocks = form.nq + form.nk,
                   .blocks_y = std::min(gpu::blocks_for(z.rows(), kTokens), kMostBlocks),
                   .threads = kTileThreads,
                   .shared_bytes = sizeof(Tile<kDim>)},
                  head_args(*this, angles), gpu::rows_of<bf16>(out),
                  value_rows(z, out, segments.start_N, form, false));
  });
}

}  // namespace tephra::kernel

// SPDX-License-Identifier: Apache-2.0
#include "tephra/nn/attention_layer.h"

#include "tephra/ops/copy_rows.h"

namespace tephra {

KeysValues remembered(const Tensor& k, const Tensor& v, const LayerContext& context) {
  if (!context.state) return {k, v};
  copy_rows(context.state->k, *context.write_row_N, k);
  copy_rows(context.state->v, *context.write_row_N, v);
  return {context.state->k, context.state->v};
}

Tensor rows_up_to(const Tensor& x, const Tensor& kept_rows, int64_t rows) {
  const Tensor kept = to_device(kept_rows, kCpu);
  std::vector<int32_t> wanted;
  for (int64_t i = 0; i < kept.numel(); ++i) {
    for (int64_t r = rows; r-- > 0;) {
      wanted.push_back(kept.data<int32_t>()[i] - static_cast<int32_t>(r));
    }
  }
  const Tensor to({kept.numel(), rows, x.cols()}, x.dtype(), x.device());
  const auto count = static_cast<int64_t>(wanted.size());
  take_rows(to.view({count, x.cols()}), x, from_values({count}, wanted));
  return to;
}

}  // namespace tephra

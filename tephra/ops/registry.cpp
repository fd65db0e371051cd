// SPDX-License-Identifier: Apache-2.0
// The table of ops: one row each, declared in <op>_spec.cpp.
#include "tephra/ops/op_spec.h"

#define TEPHRA_OPS(ROW) \
  ROW(rms_norm)         \
  ROW(embedding)        \
  ROW(dispatch_rows)    \
  ROW(grouped_linear)   \
  ROW(combine_rows)     \
  ROW(linear)           \
  ROW(depthwise_conv)   \
  ROW(grouped_conv)     \
  ROW(tail_state)       \
  ROW(value_shift)      \
  ROW(route)            \
  ROW(merge_norm)       \
  ROW(swiglu)           \
  ROW(gelu)             \
  ROW(scaled_add)       \
  ROW(rope)             \
  ROW(qk_mean)          \
  ROW(qk_norm)          \
  ROW(cca_heads)        \
  ROW(cca_qkv)          \
  ROW(add_bias)         \
  ROW(mask_rows)        \
  ROW(latent_heads)     \
  ROW(attention)        \
  ROW(merge_attention)  \
  ROW(linear_cross_entropy)

namespace tephra {

#define TEPHRA_DECLARE(op) OpSpec op##_spec();
TEPHRA_OPS(TEPHRA_DECLARE)
#undef TEPHRA_DECLARE

std::vector<OpSpec> all_op_specs() {
  return {
#define TEPHRA_CALL(op) op##_spec(),
      TEPHRA_OPS(TEPHRA_CALL)
#undef TEPHRA_CALL
  };
}

}  // namespace tephra

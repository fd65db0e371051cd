// SPDX-License-Identifier: Apache-2.0
// The row of the whole model in `tephra bench ops`. It has no bench until the model room offers
// one.
#include "tephra/cli/bench_ops.h"

namespace tephra {

OpSpec model_bench_spec() { return {.name = "model", .cases = {}, .benches = {}}; }

}  // namespace tephra

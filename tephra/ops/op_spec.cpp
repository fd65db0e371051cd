// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/op_spec.h"

#include "tephra/autograd/variable.h"
#include "tephra/core/rng.h"

namespace tephra {

Tensors make_inputs(const std::vector<InputSpec>& inputs, DType dtype, uint64_t seed,
                    Device device) {
  Tensors tensors;
  uint32_t stream = 0;
  for (const InputSpec& in : inputs) {
    ++stream;
    if (in.role == Role::index) {
      tensors.push_back(to_device(in.values, device));
      continue;
    }
    const Tensor drawn(in.shape, in.role == Role::stream ? acc_dtype(dtype) : dtype);
    fill_normal(drawn, {seed, stream, 0}, in.mean, in.scale);
    Tensor t = to_device(drawn, device);
    if (in.gradient) {
      make_leaf(t, in.role == Role::parameter ? acc_dtype(dtype) : t.dtype());
    }
    tensors.push_back(t);
  }
  return tensors;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Some ops are one kernel on a GPU and several ops elsewhere, and keep less for it.
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

// Whether ops on x take the form that they have on a GPU.
bool as_on_a_gpu(const Tensor& x);

// While one is alive, that is answered on this thread as if every tensor were on a GPU: what a GPU
// will keep of a step can be measured without one.
class AsOnAGpu {
 public:
  explicit AsOnAGpu(bool on);
  ~AsOnAGpu();
  AsOnAGpu(const AsOnAGpu&) = delete;
  AsOnAGpu& operator=(const AsOnAGpu&) = delete;

 private:
  bool outer_;
};

}  // namespace tephra

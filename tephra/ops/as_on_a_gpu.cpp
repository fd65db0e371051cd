// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/as_on_a_gpu.h"

namespace tephra {
namespace {

thread_local bool everywhere = false;

}  // namespace

bool as_on_a_gpu(const Tensor& x) { return everywhere || x.device().kind == Device::Kind::gpu; }

AsOnAGpu::AsOnAGpu(bool on) : outer_(everywhere) { everywhere = on; }
AsOnAGpu::~AsOnAGpu() { everywhere = outer_; }

}  // namespace tephra

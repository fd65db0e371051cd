// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/batch.h"

#include <algorithm>

#include "tephra/base/error.h"

namespace tephra {

void Batch::add(const Sample& sample) {
  TEPHRA_ASSERT(sample.inputs.size() == sample.targets.size(), "each token has a target or none");
  if (sample.padding > 0 && real.empty()) real.assign(inputs.size(), 1);
  if (!real.empty() || sample.padding > 0) {
    const auto padding = static_cast<size_t>(sample.padding);
    real.insert(real.end(), sample.inputs.size() - padding, 1);
    real.insert(real.end(), padding, 0);
  }
  inputs.insert(inputs.end(), sample.inputs.begin(), sample.inputs.end());
  targets.insert(targets.end(), sample.targets.begin(), sample.targets.end());
  lengths.insert(lengths.end(), sample.lengths.begin(), sample.lengths.end());
  predicted += std::count_if(sample.targets.begin(), sample.targets.end(),
                             [](int32_t target) { return target != kNoTarget; });
  ++samples;
}

Segments Batch::segments() const {
  Segments segments = Segments::packed(lengths);
  if (!real.empty()) {
    segments.real_N = Tensor({tokens()}, DType::i32);
    std::copy(real.begin(), real.end(), segments.real_N.data<int32_t>());
  }
  return segments;
}

}  // namespace tephra

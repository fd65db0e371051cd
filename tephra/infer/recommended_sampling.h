// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/base/files.h"
#include "tephra/infer/sampler.h"

namespace tephra {

// What the model's makers recommend in its generation_config.json, where they say; else draws at
// temperature 1.
Sampling recommended_sampling(const Path& folder);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tephra::gpu {

// What its vendor's datasheet says of this GPU: dense bf16 products, FLOP/s; 0 where it is not
// known.
double datasheet_flops(const std::string& name);

}  // namespace tephra::gpu

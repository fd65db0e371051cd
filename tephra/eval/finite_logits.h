// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "tephra/base/error.h"

namespace tephra {

// `model`: its folder, where that is known.
inline void require_finite_logits(bool finite, std::string_view model) {
  require_data(finite,
               "{}: the logits are not finite; `tephra checkpoint verify` finds weights that are "
               "not",
               model);
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// How many columns of a terminal a character takes.
#pragma once

#include <cstdint>

namespace tephra {

int display_width(uint32_t code_point);  // 0: it joins the one before; 2: Chinese, emoji

}  // namespace tephra

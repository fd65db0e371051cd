// SPDX-License-Identifier: Apache-2.0
// English words without their endings: adopted, adopts and adopting are one.
#pragma once

#include <string>
#include <string_view>

namespace tephra {

std::string stem(std::string_view lower);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tephra {

std::string host_name();

}  // namespace tephra

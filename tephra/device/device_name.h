// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/device/device.h"

namespace tephra {

// What the text of --device names, whether this machine has it or not; parse_device asks for that,
// too. Fault::usage when it names none.
Device device_named(const std::string& text);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Text for a command: an argument, a file, or what is piped in.
#pragma once

#include <optional>
#include <string>

namespace tephra {

// The argument if given, else the file if given, else all of stdin. Both is Fault::usage.
std::string input_text(const std::optional<std::string>& argument,
                       const std::optional<std::string>& file);

}  // namespace tephra

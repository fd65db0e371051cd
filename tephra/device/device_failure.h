// SPDX-License-Identifier: Apache-2.0
// The device itself failed, by a kernel that did what it must not or by a fault of its own: in this
// process no later call on it can do better. Memory that does not fit is no such failure.
#pragma once

#include "tephra/base/error.h"

namespace tephra {

class DeviceFailure : public Error {
 public:
  explicit DeviceFailure(const std::string& what, std::string hint = {})
      : Error(Fault::device, what, std::move(hint)) {}
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// The text of the error that a wrong call gives.
#pragma once

#include <string>

#include "tephra/base/error.h"

namespace tephra {

template <class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace tephra

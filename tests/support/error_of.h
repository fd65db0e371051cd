// SPDX-License-Identifier: Apache-2.0
// The error of a call, for tests that read its text and fault.
#pragma once

#include <gtest/gtest.h>

#include "tephra/base/error.h"
#include "tephra/base/function_ref.h"

namespace tephra {

// The error that a call throws; a test failure when it throws none.
inline Error error_of(FunctionRef<void()> call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error";
  return Error(Fault::internal, "no error");
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Errors. Libraries throw Error; only cli/main.cpp turns one into a message and an exit code.
// A message reads: where: expected, got; what to do.
#pragma once

#include <stdexcept>
#include <string>

#include "tephra/base/format.h"

namespace tephra {

// Whose fault it is decides the exit code.
enum class Fault {
  usage,        // 2: a flag, a config key, a path that does not exist or cannot be written
  data,         // 3: bad content, a failed verify, a full disk or a failed write
  device,       // 4: out of memory, a missing instruction set, a failed device call
  peer,         // 5: another rank failed
  internal,     // 70: our own invariant broke
  interrupted,  // 130: stopped by a signal, after saving
};

int exit_code(Fault fault);

class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& what, std::string hint = {})
      : std::runtime_error(what), fault_(fault), hint_(std::move(hint)) {}

  Fault fault() const { return fault_; }
  const std::string& hint() const { return hint_; }

 private:
  Fault fault_;
  std::string hint_;
};

// For what a caller can get wrong.
template <class... Args>
void require(bool ok, FormatString<Args...> message, const Args&... args) {
  if (!ok) [[unlikely]]
    throw Error(Fault::usage, tephra::format<Args...>(message, args...));
}

// For content of files: the same with Fault::data.
template <class... Args>
void require_data(bool ok, FormatString<Args...> message, const Args&... args) {
  if (!ok) [[unlikely]]
    throw Error(Fault::data, tephra::format<Args...>(message, args...));
}

[[noreturn]] void assertion_failed(const char* condition, const char* why, const char* file,
                                   int line);

}  // namespace tephra

// For our own invariants; on in every build, so keep it out of inner loops.
#define TEPHRA_ASSERT(condition, why)     \
  (static_cast<bool>(condition) ? void(0) \
                                : ::tephra::assertion_failed(#condition, why, __FILE__, __LINE__))

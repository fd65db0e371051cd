// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/error.h"

#include <string_view>

namespace tephra {

int exit_code(Fault fault) {
  switch (fault) {
    case Fault::usage:
      return 2;
    case Fault::data:
      return 3;
    case Fault::device:
      return 4;
    case Fault::peer:
      return 5;
    case Fault::internal:
      return 70;
    case Fault::interrupted:
      return 130;
  }
  return 70;
}

void assertion_failed(const char* condition, const char* why, const char* file, int line) {
  std::string_view path = file;
  if (const size_t at = path.rfind("tephra/"); at != std::string_view::npos) path.remove_prefix(at);
  throw Error(Fault::internal, format("{}:{}: {} does not hold: {}", path, line, condition, why),
              "this is a fault of tephra itself; please report it with the command that led here");
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/temporary_name.h"

#include <unistd.h>

#include "tephra/base/format.h"

namespace tephra {
namespace {

constexpr std::string_view kEnding = ".tmp";

std::string beginning(std::string_view file) { return format(".{}.", file); }

}  // namespace

std::string temporary_name(std::string_view file, int64_t n) {
  return format("{}{}-{}{}", beginning(file), ::getpid(), n, kEnding);
}

bool is_temporary_name(std::string_view name, std::string_view file) {
  const std::string begin = beginning(file);
  if (!name.starts_with(begin) || !name.ends_with(kEnding)) return false;
  return name.find_first_not_of("0123456789-", begin.size()) == name.size() - kEnding.size();
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/gpu/settings.h"

#include <charconv>
#include <cstdlib>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra::gpu {

std::string file_setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool switch_setting(const char* name, bool unless_set) {
  const std::string value = file_setting(name);
  if (value.empty()) return unless_set;
  require(value == "0" || value == "1", "{}: expected 0 or 1, got '{}'", name, clipped(value, 60));
  return value == "1";
}

int64_t count_setting(const char* name) {
  const std::string value = file_setting(name);
  if (value.empty()) return 0;
  int64_t count = 0;
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, count);
  require(error == std::errc() && at == end && count >= 1,
          "{}: expected a whole number from 1, got '{}'", name, clipped(value, 60));
  return count;
}

FailSetting fail_setting() {
  const FailSetting asked{count_setting("TEPHRA_GPU_FAIL_AT"), count_setting("TEPHRA_GPU_FAIL_AS")};
  require(asked.as == 0 || asked.at > 0,
          "TEPHRA_GPU_FAIL_AS has no effect without TEPHRA_GPU_FAIL_AT, which says when");
  return asked;
}

}  // namespace tephra::gpu

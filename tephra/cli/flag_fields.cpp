// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/flag_fields.h"

#include <algorithm>

#include "tephra/base/error.h"

namespace tephra {

std::string FlagFields::name_of(std::string_view key, const ConfigLimits& limits) {
  std::string name = "--" + std::string(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return limits.value_name.empty() ? name : name + " " + limits.value_name;
}

void FlagFields::limit(Flag flag, const ConfigLimits& limits) {
  TEPHRA_ASSERT(!limits.above, "a flag's range has its ends");
  TEPHRA_ASSERT(limits.min.has_value() == limits.max.has_value(), "a flag's range has two ends");
  if (limits.required) flag.required();
  if (!limits.choices.empty()) flag.choices(limits.choices);
  if (limits.min) flag.range(*limits.min, *limits.max);
}

}  // namespace tephra

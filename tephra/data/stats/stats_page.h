// SPDX-License-Identifier: Apache-2.0
// The reports of stages as one HTML page that needs nothing else.
#pragma once

#include <span>
#include <string>

#include "tephra/base/json.h"

namespace tephra {

struct StageReport {
  std::string title;  // "filtered"
  Json json;          // of its report.json
};

std::string stats_page(std::span<const StageReport> reports);

}  // namespace tephra

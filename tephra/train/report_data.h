// SPDX-License-Identifier: Apache-2.0
// What the report's script draws, as JSON.
#pragma once

#include <string>

#include "tephra/train/run_metrics.h"

namespace tephra {

// Groups of charts and heat maps by the id of their place on the page; a group without content is
// not there.
Json report_data(const RunMetrics& metrics);

std::string short_number(double value);  // "12.3k", "1.2M", "0.00034"

}  // namespace tephra

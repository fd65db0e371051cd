// SPDX-License-Identifier: Apache-2.0
// A run as one HTML page that needs nothing else: plots of metrics.jsonl, its config and machine.
#pragma once

#include <string>
#include <vector>

#include "tephra/base/files.h"

namespace tephra {

struct RunReport {
  std::string html;
  int64_t steps = 0;               // lines that were read
  std::vector<std::string> notes;  // what was wrong with the files, also on the page
};

// Reads RUN/metrics.jsonl, and where they are there: config.toml (the resolved config),
// environment.json, model/config.json, checkpoints/. A run that is still going, or whose last line
// was cut, is fine.
RunReport make_report(const Path& run_dir);

}  // namespace tephra

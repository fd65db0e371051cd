// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object a step, the truth about a run (docs/formats/metrics.md). Times go
// into its member "timing", so that the rest of a line is the same however often the run was
// stopped and resumed.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "tephra/base/append_file.h"
#include "tephra/base/json.h"

namespace tephra {

inline constexpr const char* kMetricsName = "metrics.jsonl";

class MetricsLog {
 public:
  // Opens RUN/metrics.jsonl and drops every line after that of `last_step` (all lines for -1): a
  // resumed run writes them again. A last line that was cut by a crash is dropped, too. Warns when
  // lines are missing, of which there is one every `every` steps.
  MetricsLog(const Path& run_dir, int64_t last_step, int64_t every = 1);

  // One line; it must have an integer "step" beyond the last line's. A line that cannot be written
  // now (a full disk) is kept, warned about, and written before the next one.
  void append(const Json& row);

  // To the disk; Fault::data when that fails. Any thread.
  void flush();

 private:
  std::mutex mutex_;
  AppendFile file_;
  int64_t last_step_;
};

}  // namespace tephra

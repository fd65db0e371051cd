// SPDX-License-Identifier: Apache-2.0
// Benches between two measurements of the machine's ceilings, and how the result is shown.
#pragma once

#include <vector>

#include "tephra/base/json.h"
#include "tephra/cli/bench_ops.h"

namespace tephra {

struct BenchReport {
  BenchOptions options;
  std::vector<BenchRow> rows;
  Ceilings before, after;
};

// Shares survive a busy machine only roughly: library and pool cope with it differently.
void warn_when_busy(double load);

BenchReport measure_benches(const std::vector<OpSpec>& specs, const BenchOptions& options);

void print(const BenchReport& report);
Json to_json(const BenchReport& report);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// How fast the loops of the data pipeline are, each on its own and on one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tephra/base/files.h"

namespace tephra {

struct DataBenchRow {
  std::string what;
  double rate = 0;
  std::string unit;              // "MB/s", "M records/s"
  std::optional<double> target;  // of this unit
  std::optional<double> python;  // the same loop in Python, timed in the same run
};

struct DataBenchOptions {
  std::vector<std::string> texts;  // the documents
  double seconds = 1;              // of passes for each row; the best one counts
  std::string python;              // tools/data_peers.py; empty: none
};

std::vector<DataBenchRow> bench_data(const DataBenchOptions& options);

}  // namespace tephra

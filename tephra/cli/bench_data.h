// SPDX-License-Identifier: Apache-2.0
// How fast the data pipeline is, loop by loop and as a whole, against the numbered targets of
// docs/data-pipeline.md, and against the same loops in Python and DuckDB, timed in the same run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tephra/base/files.h"

namespace tephra {

struct DataBenchRow {
  int number = 0;  // of the target; 0: none
  std::string what;
  double value = 0;
  std::string unit;              // "MB/s", "M records/s", "B"
  std::optional<double> target;  // of this unit
  bool at_most = false;          // the target is an upper limit
  std::optional<double> peer;    // the same work by another program, in this unit
  std::string peer_name;
  std::optional<double> ratio_target;  // of the value to the peer's

  std::optional<double> ratio() const { return peer ? std::optional(value / *peer) : std::nullopt; }
  // Nothing when there is nothing to meet.
  std::optional<bool> met() const;
};

struct DataBenchOptions {
  std::vector<std::string> texts;      // the documents
  double seconds = 1;                  // of passes for each row; the best one counts
  std::string only;                    // rows with this in their name; empty: all
  std::string python;                  // tools/data_peers.py; empty: none
  std::string duckdb;                  // libduckdb.so; empty: none
  std::string duckdb_script;           // tools/duckdb_peer.py
  std::string language_model;          // fastText's, .bin or .ftz; empty: a made one of that shape
  std::vector<std::string> languages;  // texts of many, for the agreement of samples with wholes
};

std::vector<DataBenchRow> bench_data(const DataBenchOptions& options);

// Exactness at full size: how often planted pairs are found, what a removal is worth, and texts
// that must stay.
struct DataQualityOptions {
  int64_t pairs = 10000;      // at each similarity
  int64_t documents = 10000;  // of each corpus
};
std::vector<DataBenchRow> bench_data_quality(const DataQualityOptions& options);

}  // namespace tephra

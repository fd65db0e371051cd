// SPDX-License-Identifier: Apache-2.0
// Rows of the data bench as they are made, for its parts.
#pragma once

#include <algorithm>
#include <map>

#include "tephra/base/clock.h"
#include "tephra/base/function_ref.h"
#include "tephra/base/temporary_folder.h"
#include "tephra/cli/bench_data.h"

namespace tephra {

class DataBenchRows {
 public:
  explicit DataBenchRows(const DataBenchOptions& options) : options_(options) {}

  const DataBenchOptions& options() const { return options_; }
  bool wanted(const std::string& what) const {
    return what.find(options_.only) != std::string::npos;
  }

  // A run to see that all rows are there: sizes that take no time.
  bool is_small() const {
    size_t bytes = 0;
    for (const std::string& text : options_.texts) bytes += text.size();
    return bytes < 1000000;
  }

  // Amount a second, the best pass of those that fit into the time.
  double best(double amount, FunctionRef<void()> pass) const {
    double least = 1e30;
    const double begin = steady_seconds();
    do {
      least = std::min(least, seconds_of(pass));
    } while (steady_seconds() - begin < options_.seconds);
    return amount / least;
  }

  void add(DataBenchRow row, const std::string& peer = "") {
    const auto found = peers_.find(peer.empty() ? row.what : peer);
    if (found != peers_.end()) {
      row.peer = found->second.first;
      row.peer_name = found->second.second;
    }
    rows_.push_back(std::move(row));
  }
  void set_peer(const std::string& what, double rate, const std::string& name) {
    peers_[what] = {rate, name};
  }
  std::vector<DataBenchRow> take() { return std::move(rows_); }

 private:
  const DataBenchOptions& options_;
  std::map<std::string, std::pair<double, std::string>> peers_;
  std::vector<DataBenchRow> rows_;
};

inline constexpr const char* kBenchDataFolder = "bench-data";  // of TemporaryFolder

// {"text": ...} a line.
std::string json_lines(const std::vector<std::string>& texts);

// What a script prints: rates by name.
void run_peer_script(DataBenchRows& rows, const std::string& command, const std::string& name);

// The parts, one a file.
void bench_data_loops(DataBenchRows& rows);   // reading, filters, signatures, joins
void bench_data_files(DataBenchRows& rows);   // whole stages on files, threads, memory
void bench_data_labels(DataBenchRows& rows);  // language ID

}  // namespace tephra

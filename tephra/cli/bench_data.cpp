// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_data.h"

#include <array>
#include <cstdio>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/cli/bench_data_rows.h"
#include "tephra/data/corpus/json_text.h"

namespace tephra {

std::optional<bool> DataBenchRow::met() const {
  std::optional<bool> met;
  if (target) met = at_most ? value <= *target : value >= *target;
  if (ratio_target && ratio()) met = met.value_or(true) && *ratio() >= *ratio_target;
  return met;
}

std::string json_lines(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) {
    lines += "{\"text\":";
    append_json_string(lines, text);
    lines += "}\n";
  }
  return lines;
}

void run_peer_script(DataBenchRows& rows, const std::string& command, const std::string& name) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  require(pipe != nullptr, "{}: cannot be started", command);
  std::string out;
  std::array<char, 4096> buffer;
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    out.append(buffer.data(), got);
  }
  require(::pclose(pipe) == 0, "{}: failed", command);
  const Json rates = Json::parse(out, command);
  for (const auto& [what, rate] : rates.object()) rows.set_peer(what, rate.number(), name);
}

std::vector<DataBenchRow> bench_data(const DataBenchOptions& options) {
  require(!options.texts.empty(), "expected documents, got none");
  const int threads = num_threads();
  set_num_threads(1);
  DataBenchRows rows(options);
  bench_data_loops(rows);
  bench_data_labels(rows);
  bench_data_files(rows);
  set_num_threads(threads);
  return rows.take();
}

}  // namespace tephra

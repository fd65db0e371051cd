// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl, read for a report: every series in bounded memory, whatever the length of the run.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/train/thinned.h"

namespace tephra {

class RunMetrics {
 public:
  struct Phase {
    int64_t step = 0;
    std::string name;
  };

  struct Evaluation {
    int64_t step = 0;
    std::map<std::string, std::map<std::string, double>> accuracy;  // by kind, then level
  };

  static constexpr size_t kPoints = 1000;  // of a series
  static constexpr size_t kColumns = 240;  // of the heat map
  static constexpr size_t kLoads = 20;     // last lines with a load that are averaged
  static constexpr size_t kMarks = 400;

  using Series = Buckets<ValueRange>;

  // Reads the whole file. Lines that are no metrics are named in notes().
  static RunMetrics read(const Path& path);

  // Numbers of a line by name, those of "timing" as "timing.NAME", in the order of first sight.
  const std::vector<std::pair<std::string, Series>>& scalars() const { return scalars_; }
  const Series* scalar(const std::string& name) const;
  double last(const std::string& name) const;  // NaN when there is none
  double sum(const std::string& name) const;   // over all lines; 0 when there is none

  const Buckets<VectorSums>& entropy() const { return entropy_; }
  std::vector<std::vector<double>> load() const;  // layer, expert: share x experts, 1 is even
  const std::map<std::string, Series>& accuracy() const { return accuracy_; }  // mean of its levels
  const Evaluation& last_evaluation() const { return evaluation_; }
  const std::vector<Phase>& phases() const { return phases_; }
  const std::vector<int64_t>& skipped() const { return skipped_; }  // the first kMarks
  int64_t num_skipped() const { return num_skipped_; }
  int64_t steps() const { return steps_; }
  int64_t last_step() const { return last_step_; }
  double seconds() const { return seconds_; }  // sum of timing.seconds
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void add_lines(std::string_view text, int64_t first_line, const std::string& where);
  void add(const Json& row, int64_t line);
  void add_scalars(const Json& row, int64_t step, const std::string& prefix);
  void add_scalar(const std::string& name, int64_t step, double value);
  void add_entropy(const Json& value, int64_t step);
  void add_load(const Json& value);
  void add_evaluation(const Json& value, int64_t step);
  void complain(const std::string& what);

  std::vector<std::pair<std::string, Series>> scalars_;
  std::map<std::string, size_t> scalar_index_;
  std::map<std::string, double> last_, sums_;
  Buckets<VectorSums> entropy_{kColumns};
  std::deque<std::vector<std::vector<double>>> loads_;
  std::map<std::string, Series> accuracy_;
  Evaluation evaluation_;
  std::vector<Phase> phases_;
  std::vector<int64_t> skipped_;
  int64_t num_skipped_ = 0;
  int64_t steps_ = 0;
  int64_t last_step_ = -1;
  double seconds_ = 0;
  int64_t complaints_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Filters of documents. A preset measures values of a text and names limits on them; a text is
// dropped when a value is beyond its limit. It may change the text first.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/data/filter/text_parts.h"

namespace tephra {

// compat: as the original computes it, its quirks included; fixed: what it was meant to compute.
enum class FilterMode { compat, fixed };

struct FilterRule {
  enum class Side { above, below };  // where a value is dropped

  std::string name;   // "zyda1.mean_word_length_max"
  std::string value;  // which one it looks at: "mean_word_length"
  Side side = Side::above;
  double limit = 0;
  bool per_length = false;  // the value is divided by the first one, which is the text's length
  size_t index = 0;         // of the value; set by make_filters

  double measured(std::span<const double> values) const {
    if (!per_length) return values[index];
    return values[0] > 0 ? values[index] / values[0] : 0;
  }
  bool drops(std::span<const double> values) const {
    return side == Side::above ? measured(values) > limit : measured(values) < limit;
  }
};

// What a preset needs while it works on one text after another; one a thread.
class FilterWorker {
 public:
  virtual ~FilterWorker() = default;

  // The text to keep: the one given, or a changed one that is valid until the next call. `values`
  // has a place for each of FilterPreset::values.
  virtual std::string_view measure(TextParts& parts, std::span<double> values) = 0;
};

struct FilterPreset {
  std::string name;
  std::vector<std::string> values;
  std::vector<FilterRule> rules;
  std::function<std::unique_ptr<FilterWorker>()> make_worker;
};

struct FilterChoice {
  std::vector<std::string> presets = {"zyda1"};
  FilterMode mode = FilterMode::fixed;
  Path word_lists;                      // folder of .json lists; empty: none
  std::vector<std::string> thresholds;  // "zyda1.length_min=200"
};

std::vector<std::string> filter_preset_names();

// "mean_word_length" in words; empty for one that no rule looks at.
std::string value_meaning(std::string_view value);

// In the order given; Fault::usage names the nearest preset or rule for one that does not exist.
std::vector<FilterPreset> make_filters(const FilterChoice& choice);

// The makers, one a file.
FilterPreset zyda1_filter(FilterMode mode, const Path& word_lists);
FilterPreset gopher_filter(FilterMode mode);
FilterPreset c4_filter(FilterMode mode);
FilterPreset fineweb_filter(FilterMode mode);

}  // namespace tephra

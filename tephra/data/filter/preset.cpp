// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/filter/preset.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

FilterPreset make_preset(const std::string& name, const FilterChoice& choice) {
  if (name == "zyda1") return zyda1_filter(choice.mode, choice.word_lists);
  if (name == "gopher") return gopher_filter(choice.mode);
  if (name == "c4") return c4_filter(choice.mode);
  if (name == "fineweb") return fineweb_filter(choice.mode);
  const std::vector<std::string> names = filter_preset_names();
  const std::optional<std::string> close = nearest(name, names);
  throw Error(Fault::usage, format("--preset: there is no '{}'", name),
              close ? format("did you mean {}?", *close) : "zyda1, gopher, c4, fineweb");
}

void bind_values(FilterPreset& preset) {
  for (FilterRule& rule : preset.rules) {
    const auto found = std::find(preset.values.begin(), preset.values.end(), rule.value);
    TEPHRA_ASSERT(found != preset.values.end(), "a rule looks at a value of its preset");
    rule.index = static_cast<size_t>(found - preset.values.begin());
    rule.name = preset.name + "." + rule.name;
  }
}

void set_threshold(std::vector<FilterPreset>& presets, const std::string& setting) {
  const size_t equals = setting.find('=');
  const std::string name = setting.substr(0, equals);
  double limit = 0;
  bool ok = equals != std::string::npos;
  if (ok) {
    const char* end = setting.data() + setting.size();
    const auto [at, error] = std::from_chars(setting.data() + equals + 1, end, limit);
    ok = error == std::errc() && at == end && !std::isnan(limit);
  }
  require(ok, "--threshold: expected RULE=NUMBER, got '{}'", setting);
  std::vector<std::string> names;
  for (FilterPreset& preset : presets) {
    for (FilterRule& rule : preset.rules) {
      names.push_back(rule.name);
      if (rule.name != name) continue;
      rule.limit = limit;
      return;
    }
  }
  const std::optional<std::string> close = nearest(name, names);
  throw Error(Fault::usage, format("--threshold: the presets have no rule '{}'", name),
              close ? format("did you mean {}?", *close)
                    : "`tephra data filter --list-rules` shows those of all presets");
}

}  // namespace

std::vector<std::string> filter_preset_names() { return {"zyda1", "gopher", "c4", "fineweb"}; }

std::vector<FilterPreset> make_filters(const FilterChoice& choice) {
  std::vector<FilterPreset> presets;
  for (const std::string& name : choice.presets) {
    for (const FilterPreset& other : presets) {
      require(other.name != name, "--preset: '{}' is given twice", name);
    }
    presets.push_back(make_preset(name, choice));
    bind_values(presets.back());
  }
  std::vector<std::string> limited;
  for (const std::string& setting : choice.thresholds) {
    limited.push_back(setting.substr(0, setting.find('=')));
    require(std::count(limited.begin(), limited.end(), limited.back()) == 1,
            "--threshold: '{}' is given twice", limited.back());
    set_threshold(presets, setting);
  }
  return presets;
}

}  // namespace tephra

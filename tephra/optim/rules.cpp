// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/rules.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "tephra/base/table.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

bool is_matrix(const ParameterSpec& spec) {
  return spec.kind == ParameterKind::matrix || spec.kind == ParameterKind::experts;
}

ParameterRule rule_of(const ParameterSpec& spec, UpdateRule matrices) {
  if (spec.kind == ParameterKind::buffer) return {};
  return {.rule = is_matrix(spec) ? matrices : UpdateRule::adamw, .decays = spec.shape.ndim() >= 2};
}

bool matches(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= name.size(); ++at) {
    if (matches(name.substr(at), rest)) return true;
  }
  return false;
}

void apply(const RuleOverride& o, const ParameterSpec& spec, ParameterRule& rule) {
  require(o.rule != UpdateRule::muon || is_matrix(spec),
          "optimizer rule '{}': expected matrices for Muon, got {} of kind {}; use adamw for it",
          o.names, spec.name, spec.kind);
  require(!o.rate || *o.rate >= 0, "optimizer rule '{}': expected a rate of 0 or more, got {}",
          o.names, o.rate.value_or(0));
  rule.rule = o.rule.value_or(rule.rule);
  rule.decays = o.decays.value_or(rule.decays);
  rule.rate = o.rate.value_or(rule.rate);
}

// "model.layers.3.x" -> "model.layers.*.x"
std::string without_numbers(const std::string& name) {
  std::string out;
  for (const std::string_view part : split(name, '.')) {
    const bool number = !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isdigit(c) != 0;
    });
    if (!out.empty()) out += '.';
    out += number ? "*" : std::string(part);
  }
  return out;
}

struct Group {
  std::string names;
  const ParameterSpec* spec;
  const ParameterRule* rule;
  int64_t tensors = 0;

  bool holds(const std::string& other, const ParameterSpec& s, const ParameterRule& r) const {
    return names == other && spec->shape == s.shape && rule->rule == r.rule &&
           rule->decays == r.decays && rule->rate == r.rate;
  }
};

std::vector<Group> groups_of(const std::vector<ParameterSpec>& specs,
                             const std::vector<ParameterRule>& rules) {
  std::vector<Group> groups;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string names = without_numbers(specs[i].name);
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const Group& g) { return g.holds(names, specs[i], rules[i]); });
    if (it == groups.end()) it = groups.insert(it, {names, &specs[i], &rules[i]});
    ++it->tensors;
  }
  return groups;
}

// "frozen" is a choice; a buffer never had one.
std::string rule_text(const ParameterSpec& spec, UpdateRule rule) {
  return spec.kind == ParameterKind::buffer ? "none (buffer)" : to_text(rule);
}

}  // namespace

std::string to_text(UpdateRule rule) {
  constexpr const char* kNames[] = {"adamw", "muon", "frozen"};
  return kNames[static_cast<size_t>(rule)];
}

Matrices matrices_of(const ParameterSpec& spec) {
  TEPHRA_ASSERT(is_matrix(spec) && spec.shape.ndim() >= 2,
                "assign_rules lets nothing else through");
  if (spec.shape.ndim() == 2) return {1, spec.shape[0], spec.shape[1]};
  return {spec.shape.rows() / std::max<int64_t>(1, spec.shape[-2]), spec.shape[-2], spec.shape[-1]};
}

std::vector<ParameterRule> assign_rules(const std::vector<ParameterSpec>& specs,
                                        const RuleOptions& options) {
  std::vector<ParameterRule> rules;
  for (const ParameterSpec& spec : specs) rules.push_back(rule_of(spec, options.matrices));
  for (const RuleOverride& o : options.overrides) {
    bool used = false;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].kind == ParameterKind::buffer || !matches(specs[i].name, o.names)) continue;
      apply(o, specs[i], rules[i]);
      used = true;
    }
    require(used,
            "optimizer rule '{}': expected the name of a trained parameter, got one that none has; "
            "'*' stands for any text",
            o.names);
  }
  return rules;
}

std::string rules_table(const std::vector<ParameterSpec>& specs,
                        const std::vector<ParameterRule>& rules) {
  TEPHRA_ASSERT(specs.size() == rules.size(), "one rule for each parameter");
  using enum TextTable::Align;
  TextTable table({left, left, left, right, right, left, left, right});
  table.add({"parameter", "kind", "shape", "tensors", "parameters", "optimizer", "decay", "rate"});
  std::array<int64_t, 3> sums{}, tensors{};
  for (const Group& g : groups_of(specs, rules)) {
    const int64_t elements = g.tensors * g.spec->shape.numel();
    const bool trained = g.rule->rule != UpdateRule::frozen;
    table.add({g.names, to_text(g.spec->kind), to_text(g.spec->shape), format("{}", g.tensors),
               human_count(elements), rule_text(*g.spec, g.rule->rule),
               trained ? (g.rule->decays ? "yes" : "no") : "",
               trained ? format("{}", g.rule->rate) : ""});
    sums[static_cast<size_t>(g.rule->rule)] += elements;
    tensors[static_cast<size_t>(g.rule->rule)] += g.tensors;
  }
  for (const UpdateRule rule : {UpdateRule::muon, UpdateRule::adamw, UpdateRule::frozen}) {
    const auto i = static_cast<size_t>(rule);
    if (tensors[i] > 0) {
      table.add({"all", "", "", format("{}", tensors[i]), human_count(sums[i]), to_text(rule)});
    }
  }
  return table.text();
}

}  // namespace tephra

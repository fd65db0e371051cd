// SPDX-License-Identifier: Apache-2.0
// Reading a config file into the fields that a struct declares.
#include <algorithm>
#include <cmath>

#include "tephra/base/config.h"
#include "tephra/base/config_value.h"
#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

double number_of(const ConfigValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value.value)) {
    return static_cast<double>(*integer);
  }
  return std::get<double>(value.value);
}

std::string shown(const ConfigValue& value) {
  if (value.is_table() || value.value.index() > 5) return kind_of(value);
  return format("{} ({})", kind_of(value), clipped(to_toml(value), 60));
}

// What is wrong with a value of the right kind, or nothing.
std::string violation(const ConfigValue& value, const ConfigLimits& limits) {
  if (value.is_list()) {
    for (const ConfigValue& element : value.list()) {
      if (const std::string wrong = violation(element, limits); !wrong.empty()) return wrong;
    }
    return {};
  }
  if (!limits.choices.empty()) {
    const auto& text = std::get<std::string>(value.value);
    const auto& all = limits.choices;
    if (std::find(all.begin(), all.end(), text) != all.end()) return {};
    std::string list;
    for (const std::string& choice : all) list += (list.empty() ? "" : ", ") + choice;
    const auto near = nearest(text, all);
    return format("expected one of {}; got \"{}\"{}", list, clipped(text, 60),
                  near ? format("; did you mean {}?", *near) : "");
  }
  if (const auto* real = std::get_if<double>(&value.value); real && !std::isfinite(*real)) {
    return format("expected a finite number, got {}", to_toml(value));
  }
  const auto outside = [&](const std::optional<double>& bound, const char* words, auto holds) {
    if (!bound || holds(number_of(value), *bound)) return std::string();
    return format("expected {} {}, got {}", words, *bound, to_toml(value));
  };
  std::string wrong = outside(limits.min, "at least", [](double x, double y) { return x >= y; });
  if (wrong.empty()) {
    wrong = outside(limits.above, "more than", [](double x, double y) { return x > y; });
  }
  if (wrong.empty()) {
    wrong = outside(limits.max, "at most", [](double x, double y) { return x <= y; });
  }
  return wrong;
}

// Where the fields are being read: one level per table that is open.
struct Level {
  const ConfigValue* node;  // null: the file has no such table
  std::string path;         // "optim.muon"
  std::string where;        // of the table, or of the one around it
  bool preset;              // within an element that the program gave: nothing is required
  std::vector<std::string> known;
  std::string missing;  // said at the end, for a misspelt key says more
};

class Reader : public ConfigFields {
 public:
  explicit Reader(std::shared_ptr<const ConfigValue> root) : root_(std::move(root)) {
    levels_.push_back({root_.get(), "", root_->where, false, {}, ""});
  }

  void check(bool ok, std::string_view key, std::string_view text) override {
    if (!ok && level().missing.empty()) fail(key, text);
  }

  void finish() { close_table(); }

 protected:
  void field(std::string_view key, const Slot& slot, std::string_view,
             const ConfigLimits& limits) override {
    const ConfigValue* given = find(key);
    if (given == nullptr) {
      if (limits.required && !level().preset && level().missing.empty()) {
        level().missing = message(key, format("expected {}, but the key is missing", slot.type));
      }
      return;
    }
    if (!slot.take(*given)) fail(key, format("expected {}, got {}", slot.type, shown(*given)));
    if (const std::string wrong = violation(*given, limits); !wrong.empty()) fail(key, wrong);
  }

  void open_table(std::string_view key, std::string_view) override {
    const ConfigValue* node = find(key);
    if (node != nullptr && !node->is_table()) {
      fail(key, format("expected a table, got {}", shown(*node)));
    }
    push(node, path_of(key), level().preset);
  }

  void close_table() override {
    if (level().node != nullptr) reject_unknown();
    if (!level().missing.empty()) throw Error(Fault::usage, level().missing);
    levels_.pop_back();
  }

  bool has_table(std::string_view key, bool is_set) override { return find(key) || is_set; }

  int64_t open_list(std::string_view key, std::string_view, int64_t) override {
    const ConfigValue* node = find(key);
    if (node != nullptr && !node->is_list()) {
      fail(key, format("expected a list of tables, [[{}]], got {}", path_of(key), shown(*node)));
    }
    push(node, path_of(key), level().preset);
    return node ? static_cast<int64_t>(node->list().size()) : -1;
  }

  void open_element(int64_t index) override {
    const Level& list = level();
    const ConfigValue* node = list.node ? &list.node->list()[static_cast<size_t>(index)] : nullptr;
    const std::string path = format("{}[{}]", list.path, index);
    require(node == nullptr || node->is_table(), "{}: key '{}': expected a table, got {}",
            node ? node->where : "", path, node ? shown(*node) : "");
    push(node, path, node == nullptr);
  }

  void close_list() override { levels_.pop_back(); }

 private:
  Level& level() { return levels_.back(); }

  std::string path_of(std::string_view key) {
    return level().path.empty() ? std::string(key) : format("{}.{}", level().path, key);
  }

  const ConfigValue* find(std::string_view key) {
    level().known.emplace_back(key);
    return level().node ? level().node->find(key) : nullptr;
  }

  void push(const ConfigValue* node, const std::string& path, bool preset) {
    levels_.push_back({node, path, node ? node->where : level().where, preset, {}, ""});
  }

  std::string message(std::string_view key, std::string_view text) {
    const ConfigValue* given = level().node ? level().node->find(key) : nullptr;
    return format("{}: key '{}': {}", given ? given->where : level().where, path_of(key), text);
  }

  [[noreturn]] void fail(std::string_view key, std::string_view text) {
    throw Error(Fault::usage, message(key, text));
  }

  void reject_unknown() {
    for (const auto& [key, value] : level().node->table()) {
      std::vector<std::string>& known = level().known;
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const auto near = nearest(key, known);
      std::string list;
      for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
      throw Error(
          Fault::usage,
          format("{}: there is no key '{}'{}", value.where, clipped(path_of(key), 80),
                 near ? format("; did you mean '{}'?", path_of(*near)) : ""),
          format("keys {}: {}", level().path.empty() ? "here" : "of " + level().path, list));
    }
  }

  std::shared_ptr<const ConfigValue> root_;
  std::vector<Level> levels_;
};

}  // namespace

ConfigFile ConfigFile::parse(std::string_view text, const std::string& where,
                             std::span<const std::string> overrides) {
  ConfigValue root = parse_toml(text, where);
  for (const std::string& assignment : overrides) apply_override(root, assignment);
  ConfigFile file;
  file.root_ = std::make_shared<const ConfigValue>(std::move(root));
  return file;
}

ConfigFile ConfigFile::read(const Path& path, std::span<const std::string> overrides) {
  constexpr int64_t kMaxBytes = int64_t{16} << 20;
  return parse(read_file(path, kMaxBytes), path.string(), overrides);
}

std::unique_ptr<ConfigFields> ConfigFile::open_reader() const {
  return std::make_unique<Reader>(root_);
}

void ConfigFile::finish(ConfigFields& reader) { static_cast<Reader&>(reader).finish(); }

}  // namespace tephra

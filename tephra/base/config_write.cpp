// SPDX-License-Identifier: Apache-2.0
// Writing the fields that a struct declares: their values as TOML, or what they mean.
#include "tephra/base/config.h"
#include "tephra/base/config_value.h"
#include "tephra/base/format.h"

namespace tephra {
namespace {

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : format("{}.{}", path, key);
}

std::string limits_text(const ConfigLimits& limits) {
  std::string text;
  const auto add = [&](const std::string& piece) { text += (text.empty() ? "" : ", ") + piece; };
  if (limits.min) add(format("at least {}", *limits.min));
  if (limits.above) add(format("more than {}", *limits.above));
  if (limits.max) add(format("at most {}", *limits.max));
  std::string choices;
  for (const std::string& choice : limits.choices) {
    choices += (choices.empty() ? "" : " | ") + choice;
  }
  if (!choices.empty()) add(choices);
  return text;
}

}  // namespace

// TOML wants a table's own values before its sub-tables: each table is a block of lines, and blocks
// are printed in the order they were opened.
struct ConfigDump::Writer : ConfigFields {
  struct Block {
    std::string heading;
    std::string lines;
  };
  std::vector<Block> blocks{{"", ""}};
  std::vector<size_t> open{0};          // blocks of the tables that are open
  std::vector<std::string> paths{""};   // their paths
  std::vector<std::string> list_paths;  // of the lists that are open

  void check(bool, std::string_view, std::string_view) override {}

  void field(std::string_view key, const Slot& slot, std::string_view,
             const ConfigLimits&) override {
    blocks[open.back()].lines += slot.current ? format("{} = {}\n", key, to_toml(*slot.current))
                                              : format("# {} is not set\n", key);
  }
  void open_block(const std::string& heading, const std::string& path) {
    open.push_back(blocks.size());
    paths.push_back(path);
    blocks.push_back({heading, ""});
  }
  void open_table(std::string_view key, std::string_view) override {
    const std::string path = joined(paths.back(), key);
    open_block(format("[{}]", path), path);
  }
  void close_table() override {
    open.pop_back();
    paths.pop_back();
  }
  bool has_table(std::string_view, bool is_set) override { return is_set; }
  int64_t open_list(std::string_view key, std::string_view, int64_t) override {
    list_paths.push_back(joined(paths.back(), key));
    return -1;
  }
  void open_element(int64_t) override {
    open_block(format("[[{}]]", list_paths.back()), list_paths.back());
  }
  void close_list() override { list_paths.pop_back(); }
};

ConfigDump::ConfigDump() : writer_(std::make_unique<Writer>()) {}
ConfigDump::~ConfigDump() = default;
ConfigFields& ConfigDump::fields() { return *writer_; }

std::string ConfigDump::toml() const {
  std::string text;
  for (const Writer::Block& block : writer_->blocks) {
    if (!block.heading.empty()) text += (text.empty() ? "" : "\n") + block.heading + "\n";
    text += block.lines;
  }
  return text;
}

struct ConfigDocs::Collector : ConfigFields {
  std::vector<ConfigEntry> entries;
  std::vector<std::string> paths{""};

  void check(bool, std::string_view, std::string_view) override {}

  void field(std::string_view key, const Slot& slot, std::string_view doc,
             const ConfigLimits& limits) override {
    const bool has_default = slot.current && !limits.required;
    entries.push_back({joined(paths.back(), key), slot.type,
                       has_default ? to_toml(*slot.current) : "", limits_text(limits),
                       std::string(doc), limits.required});
  }
  void open_table(std::string_view key, std::string_view doc) override {
    paths.push_back(joined(paths.back(), key));
    entries.push_back({paths.back(), "a table", "", "", std::string(doc), false});
  }
  void close_table() override { paths.pop_back(); }
  bool has_table(std::string_view, bool) override { return true; }
  int64_t open_list(std::string_view key, std::string_view doc, int64_t) override {
    paths.push_back(joined(paths.back(), key) + "[]");
    entries.push_back({paths.back(), "a list of tables", "", "", std::string(doc), false});
    return 1;
  }
  void open_element(int64_t) override { paths.push_back(paths.back()); }
  void close_list() override { paths.pop_back(); }
};

ConfigDocs::ConfigDocs() : collector_(std::make_unique<Collector>()) {}
ConfigDocs::~ConfigDocs() = default;
ConfigFields& ConfigDocs::fields() { return *collector_; }
const std::vector<ConfigEntry>& ConfigDocs::entries() const { return collector_->entries; }

std::string config_markdown(std::span<const ConfigEntry> entries) {
  std::string text = "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const ConfigEntry& e : entries) {
    const std::string fallback = e.required           ? "required"
                                 : e.fallback.empty() ? ""
                                                      : "`" + e.fallback + "`";
    std::string limits = e.limits.empty() ? "" : format(" ({})", e.limits);
    for (size_t at = 0; (at = limits.find('|', at)) != std::string::npos; at += 2) {
      limits.insert(at, 1, '\\');
    }
    text += format("| `{}` | {} | {} | {}{} |\n", e.key, e.type, fallback, e.doc, limits);
  }
  return text;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Config files in TOML, read strictly into plain structs. A struct binds its fields once:
//
//   struct Optim {
//     double lr = 3e-4;
//     void fields(ConfigFields& f) { f.read("lr", lr, "peak learning rate", {.min = 0}); }
//   };
//
// and that one function serves reading, the dump of the resolved config, and its documentation.
// Every error is Fault::usage and says file:line, key, expected, got.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/function_ref.h"

namespace tephra {

struct ConfigValue;

// What else must hold for a value; of a list, for each of its elements.
struct ConfigLimits {
  std::optional<double> min;    // at least
  std::optional<double> above;  // more than
  std::optional<double> max;    // at most
  std::vector<std::string> choices;
  bool required = false;   // the key must be given; its default is not used
  std::string value_name;  // of a flag with the same meaning, in its help: "DIR"
};

// One key, for documentation.
struct ConfigEntry {
  std::string key;  // "optim.lr", "phases[].tokens"
  std::string type;
  std::string fallback;  // as TOML; empty when there is none
  std::string limits;    // "at least 0"; empty when there are none
  std::string doc;
  bool required = false;
};

class ConfigFields {
 public:
  virtual ~ConfigFields() = default;

  // The default is the value that the variable has. An unset optional stays unset without the key.
  void read(std::string_view key, bool& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, int64_t& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, double& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, std::string& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, std::optional<bool>& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, std::optional<int64_t>& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, std::optional<double>& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, std::optional<std::string>& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, std::vector<int64_t>& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, std::vector<double>& value, std::string_view doc,
            const ConfigLimits& limits = {});
  void read(std::string_view key, std::vector<std::string>& value, std::string_view doc,
            const ConfigLimits& limits = {});

  // [key] with the fields of T.
  template <class T>
  void table(std::string_view key, T& value, std::string_view doc) {
    open_table(key, doc);
    value.fields(*this);
    close_table();
  }
  // The same, there only if the file has it.
  template <class T>
  void table(std::string_view key, std::optional<T>& value, std::string_view doc) {
    if (!has_table(key, value.has_value())) return;
    if (!value) value.emplace();
    table(key, *value, doc);
  }
  // [[key]], as often as given; given ones replace the default elements.
  template <class T>
  void list(std::string_view key, std::vector<T>& values, std::string_view doc) {
    const int64_t given = open_list(key, doc, static_cast<int64_t>(values.size()));
    if (given >= 0) values.assign(static_cast<size_t>(given), T{});
    for (size_t i = 0; i < values.size(); ++i) {
      open_element(static_cast<int64_t>(i));
      values[i].fields(*this);
      close_table();
    }
    close_list();
  }

  // What must hold between fields, said where the key stands: "train.toml:7: key 'optim.lr': TEXT".
  // Looked at only when a file is read.
  virtual void check(bool ok, std::string_view key, std::string_view text) = 0;

 protected:
  // A field seen as a value: reading converts `given` into it, writing takes `current` out.
  struct Slot {
    std::string type;                            // "an integer"
    std::shared_ptr<ConfigValue> current;        // null: unset
    FunctionRef<bool(const ConfigValue&)> take;  // false: of another kind
  };

  virtual void field(std::string_view key, const Slot& slot, std::string_view doc,
                     const ConfigLimits& limits) = 0;
  virtual void open_table(std::string_view key, std::string_view doc) = 0;
  virtual void close_table() = 0;
  virtual bool has_table(std::string_view key, bool is_set) = 0;
  // How many elements the file gives, or -1 to keep the `current` ones.
  virtual int64_t open_list(std::string_view key, std::string_view doc, int64_t current) = 0;
  virtual void open_element(int64_t index) = 0;
  virtual void close_list() = 0;

 private:
  template <class T>
  void read_as(std::string_view key, T& value, std::string_view doc, const ConfigLimits& limits);
};

class ConfigFile {
 public:
  // Each override is "a.b=c", as given to --set.
  static ConfigFile read(const Path& path, std::span<const std::string> overrides = {});
  static ConfigFile parse(std::string_view text, const std::string& where,
                          std::span<const std::string> overrides = {});

  // A key that no field asked for is an error that names the nearest one.
  template <class T>
  void load(T& value) const {
    const std::unique_ptr<ConfigFields> reader = open_reader();
    value.fields(*reader);
    finish(*reader);
  }

 private:
  std::unique_ptr<ConfigFields> open_reader() const;
  static void finish(ConfigFields& reader);

  std::shared_ptr<const ConfigValue> root_;
};

// Collects what `fields` declares.
class ConfigDump {
 public:
  ConfigDump();
  ~ConfigDump();
  ConfigFields& fields();
  std::string toml() const;

 private:
  struct Writer;
  std::unique_ptr<Writer> writer_;
};

class ConfigDocs {
 public:
  ConfigDocs();
  ~ConfigDocs();
  ConfigFields& fields();
  const std::vector<ConfigEntry>& entries() const;

 private:
  struct Collector;
  std::unique_ptr<Collector> collector_;
};

// The whole config as TOML that reads back to the same values. Unset keys are comments.
template <class T>
std::string dump_config(T value) {
  ConfigDump dump;
  value.fields(dump.fields());
  return dump.toml();
}

// Every key in order, one element of each list.
template <class T>
std::vector<ConfigEntry> describe_config(T value = {}) {
  ConfigDocs docs;
  value.fields(docs.fields());
  return docs.entries();
}

// A table of the keys for docs/config.md.
std::string config_markdown(std::span<const ConfigEntry> entries);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// How C++ types and config values become each other.
#include "tephra/base/config.h"

#include "tephra/base/config_value.h"
#include "tephra/base/error.h"

namespace tephra {
namespace {

std::string type_name(const bool&) { return "true or false"; }
std::string type_name(const int64_t&) { return "an integer"; }
std::string type_name(const double&) { return "a number"; }
std::string type_name(const std::string&) { return "a string"; }
std::string type_name(const std::vector<int64_t>&) { return "a list of integers"; }
std::string type_name(const std::vector<double>&) { return "a list of numbers"; }
std::string type_name(const std::vector<std::string>&) { return "a list of strings"; }
template <class T>
std::string type_name(const std::optional<T>&) {
  return type_name(T{});
}

template <class T>
bool take(const ConfigValue& given, T& value) {
  const T* found = std::get_if<T>(&given.value);
  if (found == nullptr) return false;
  value = *found;
  return true;
}
bool take(const ConfigValue& given, double& value) {
  if (const auto* integer = std::get_if<int64_t>(&given.value)) {
    value = static_cast<double>(*integer);
    return true;
  }
  return take<double>(given, value);
}
template <class T>
bool take(const ConfigValue& given, std::optional<T>& value) {
  T inside{};
  if (!take(given, inside)) return false;
  value = inside;
  return true;
}
template <class T>
bool take(const ConfigValue& given, std::vector<T>& values) {
  if (!given.is_list()) return false;
  std::vector<T> all(given.list().size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (!take(given.list()[i], all[i])) return false;
  }
  values = std::move(all);
  return true;
}

template <class T>
std::shared_ptr<ConfigValue> give(const T& value) {
  return std::make_shared<ConfigValue>(ConfigValue{.value = value});
}
template <class T>
std::shared_ptr<ConfigValue> give(const std::optional<T>& value) {
  return value ? give(*value) : nullptr;
}
template <class T>
std::shared_ptr<ConfigValue> give(const std::vector<T>& values) {
  ConfigValue::List list;
  for (const T& value : values) list.push_back(ConfigValue{.value = value});
  return std::make_shared<ConfigValue>(ConfigValue{.value = std::move(list)});
}

}  // namespace

template <class T>
void ConfigFields::read_as(std::string_view key, T& value, std::string_view doc,
                           const ConfigLimits& limits) {
  const auto taker = [&](const ConfigValue& given) { return take(given, value); };
  field(key, Slot{type_name(value), give(value), taker}, doc, limits);
}

void ConfigFields::read(std::string_view key, bool& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, int64_t& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, double& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, std::string& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, std::optional<bool>& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, std::optional<int64_t>& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, std::optional<double>& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, std::optional<std::string>& value,
                        std::string_view doc, const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, std::vector<int64_t>& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, std::vector<double>& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}
void ConfigFields::read(std::string_view key, std::vector<std::string>& value, std::string_view doc,
                        const ConfigLimits& limits) {
  read_as(key, value, doc, limits);
}

}  // namespace tephra

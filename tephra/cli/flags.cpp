// SPDX-License-Identifier: Apache-2.0
// Flags as commands describe them, and the conversion of their values.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <type_traits>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/flag_table.h"

namespace tephra {
namespace {

template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return {};
  return value;
}

template <class T>
T to_number(const std::string& name, std::string_view text) {
  const std::optional<T> value = number_in<T>(text);
  require(value && std::isfinite(static_cast<double>(*value)), "{}: expected {}, got '{}'", name,
          std::is_integral_v<T> ? "an integer" : "a number", text);
  return *value;
}

void convert(const std::string&, const std::string& text, std::string& value) { value = text; }
void convert(const std::string& name, const std::string& text, int64_t& value) {
  value = to_number<int64_t>(name, text);
}
void convert(const std::string& name, const std::string& text, double& value) {
  value = to_number<double>(name, text);
}
void convert(const std::string&, const std::string& text, std::vector<std::string>& values) {
  values.push_back(text);
}
void convert(const std::string& name, const std::string& text, std::vector<int64_t>& values) {
  for (const std::string_view part : split(text, ',')) {
    values.push_back(to_number<int64_t>(name, part));
  }
}
template <class T>
void convert(const std::string& name, const std::string& text, std::optional<T>& value) {
  convert(name, text, value.emplace());
}

std::string shown(const std::string& value) { return value; }
std::string shown(int64_t value) { return format("{}", value); }
std::string shown(double value) { return format("{}", value); }
template <class T>
std::string shown(const std::optional<T>& value) {
  return value ? shown(*value) : "";
}
template <class T>
std::string shown(const std::vector<T>& values) {
  std::string line;
  for (const T& value : values) line += (line.empty() ? "" : ",") + shown(value);
  return line;
}

const char* placeholder(const std::string&) { return "TEXT"; }
const char* placeholder(int64_t) { return "N"; }
const char* placeholder(double) { return "X"; }
const char* placeholder(const std::vector<std::string>&) { return "TEXT"; }
const char* placeholder(const std::vector<int64_t>&) { return "N,N,..."; }
template <class T>
const char* placeholder(const std::optional<T>&) {
  return placeholder(T());
}

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

template <class T>
Flag describe_flag(FlagTable* table, const std::string& name, T& value, const std::string& help) {
  FlagSpec& spec = table->add();
  const size_t space = name.find(' ');
  spec.name = name.substr(0, space);
  spec.placeholder = space == std::string::npos ? placeholder(value) : name.substr(space + 1);
  spec.help = help;
  spec.shown_default = shown(value);
  spec.list = kIsList<T>;
  spec.take = [&value, &spec](const std::string& text) {
    if constexpr (kIsList<T>) {
      if (spec.times_given == 1) value.clear();  // what is given replaces the default
    }
    convert(spec.name, text, value);
  };
  return Flag(&spec);
}

}  // namespace

Flag& Flag::required() {
  spec_->required = true;
  spec_->shown_default.clear();
  return *this;
}

Flag& Flag::alone() {
  spec_->alone = true;
  return *this;
}

Flag& Flag::of(const std::string& other, const std::string& or_other) {
  spec_->of = {other};
  if (!or_other.empty()) spec_->of.push_back(or_other);
  return *this;
}

Flag& Flag::choices(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "" : ", ") + value;
  spec_->placeholder.clear();
  for (const std::string& value : values) {
    spec_->placeholder += (spec_->placeholder.empty() ? "" : "|") + value;
  }
  spec_->checks.emplace_back([spec = spec_, values, list](const std::string& text) {
    require(std::find(values.begin(), values.end(), text) != values.end(),
            "{}: expected one of {}; got '{}'", spec->name, list, text);
  });
  return *this;
}

Flag& Flag::range(double low, double high) {
  spec_->checks.emplace_back([spec = spec_, low, high](const std::string& text) {
    for (const std::string_view part : split(text, ',')) {
      const std::optional<double> value = number_in<double>(part);
      if (!value) return;  // the conversion says it better
      require(*value >= low && *value <= high, "{}: expected {} to {}, got {}", spec->name, low,
              high, part);
    }
  });
  return *this;
}

Flag Flags::add(const std::string& name, std::string& value, const std::string& help) {
  return describe_flag(table_, name, value, help);
}
Flag Flags::add(const std::string& name, int64_t& value, const std::string& help) {
  return describe_flag(table_, name, value, help);
}
Flag Flags::add(const std::string& name, double& value, const std::string& help) {
  return describe_flag(table_, name, value, help);
}
Flag Flags::add(const std::string& name, std::optional<int64_t>& value, const std::string& help) {
  return describe_flag(table_, name, value, help);
}
Flag Flags::add(const std::string& name, std::optional<double>& value, const std::string& help) {
  return describe_flag(table_, name, value, help);
}
Flag Flags::add(const std::string& name, std::optional<std::string>& value,
                const std::string& help) {
  return describe_flag(table_, name, value, help);
}
Flag Flags::add(const std::string& name, std::vector<std::string>& values,
                const std::string& help) {
  return describe_flag(table_, name, values, help);
}
Flag Flags::add(const std::string& name, std::vector<int64_t>& values, const std::string& help) {
  return describe_flag(table_, name, values, help);
}

Flag Flags::add(const std::string& name, bool& value, const std::string& help) {
  TEPHRA_ASSERT(!value, "a switch can only be turned on");
  FlagSpec& spec = table_->add();
  spec.name = name;
  spec.help = help;
  spec.take = [&value](const std::string&) { value = true; };
  return Flag(&spec);
}

void Flags::note_given(std::vector<std::string>* names) { table_->note_in = names; }

void refuse_given(const std::vector<std::string>& names, const std::string& why) {
  if (!names.empty()) throw Error(Fault::usage, format("{} is {}", names.front(), why));
}

void Flags::example(const std::string& line) { table_->examples.push_back(line); }

}  // namespace tephra

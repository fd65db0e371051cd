// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

// Reads through a shared cursor, so that the builder knows how far the lexer is.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit Cursor(const char** at) : at_(at) {}
  reference operator*() const { return **at_; }
  Cursor& operator++() {
    ++*at_;
    return *this;
  }
  bool operator==(const Cursor& other) const { return *at_ == *other.at_; }
  bool operator!=(const Cursor& other) const { return *at_ != *other.at_; }

 private:
  const char** at_;
};

// Receives nlohmann's events and builds our tree, with an explicit stack of open containers.
class Builder {
 public:
  Builder(std::string_view text, const std::string& where, int max_depth, Json::Repeats repeats,
          const char** at)
      : text_(text), where_(where), max_depth_(max_depth), repeats_(repeats), at_(at) {}

  Json take() { return std::move(root_); }

  [[noreturn]] void fail(size_t offset, const std::string& what) const {
    const std::string_view before = text_.substr(0, std::min(offset, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = before.size() - (before.rfind('\n') + 1);  // npos + 1 is 0
    throw Error(Fault::data, format("{}: line {}, column {}: {}", where_, line,
                                    std::max<size_t>(1, column), what));
  }

  // nlohmann's events.
  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(int64_t value) { return add(Json(value)); }
  bool number_unsigned(uint64_t value) {
    // Beyond int64 an integer becomes a double, as JSON readers do; asking for an integer there is
    // then an error, not a wrapped value. Published tokenizer configs hold a 10^30.
    const bool fits = value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return add(fits ? Json(static_cast<int64_t>(value)) : Json(static_cast<double>(value)));
  }
  bool number_float(double value, const std::string&) { return add(Json(value)); }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json(Json::Object())); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(Json(Json::Array())); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Level& level = levels_.back();
    const auto [at, fresh] = level.seen.try_emplace(name, level.seen.size());
    if (!fresh && repeats_ == Json::Repeats::refused) {
      fail(position(), format("the key '{}' appears twice in one object", clipped(name, 80)));
    }
    level.key = std::move(name);
    level.at = at->second;
    return true;
  }
  bool parse_error(size_t offset, const std::string&, const nlohmann::json::exception& e) {
    fail(offset, reason(e.what()));
  }

 private:
  struct Level {
    Json container;
    std::string key;
    size_t at = 0;  // its place among the members
    std::unordered_map<std::string, size_t> seen;
  };

  size_t position() const { return static_cast<size_t>(*at_ - text_.data()); }

  bool open(Json container) {
    if (levels_.size() >= static_cast<size_t>(max_depth_)) {
      fail(position(), format("nested deeper than {} levels", max_depth_));
    }
    levels_.push_back({.container = std::move(container), .key = {}, .seen = {}});
    return true;
  }

  bool close() {
    Json finished = std::move(levels_.back().container);
    levels_.pop_back();
    return add(std::move(finished));
  }

  bool add(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = levels_.back(); level.container.is_array()) {
      level.container.array().push_back(std::move(value));
    } else if (Json::Object& members = level.container.object(); level.at < members.size()) {
      members[level.at].second = std::move(value);
    } else {
      members.emplace_back(std::move(level.key), std::move(value));
    }
    return true;
  }

  // The library's "[id] parse error at line 1, column 2: what; last read: ..." without the place,
  // which we give ourselves, and without the text it quotes, which may be long or not UTF-8.
  static std::string reason(std::string_view text) {
    if (const size_t at = text.find("; last read"); at != text.npos) text = text.substr(0, at);
    if (const size_t at = text.find(']'); at != text.npos) text.remove_prefix(at + 1);
    if (text.find("parse error") != text.npos) {
      if (const size_t at = text.find(": "); at != text.npos) text.remove_prefix(at + 2);
    }
    if (!is_utf8(text)) return "not valid JSON";
    return clipped(trim(text), 160);
  }

  std::string_view text_;
  const std::string& where_;
  int max_depth_;
  Json::Repeats repeats_;
  const char** at_;
  Json root_;
  std::vector<Level> levels_;
};

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";  // JSON has no word for it
    return;
  }
  // Plain digits for sizes that people read, as Python writes them; the shortest that read back.
  const double size = std::abs(value);
  const bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
  char buffer[64];
  const char* end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                  plain ? std::chars_format::fixed : std::chars_format::scientific)
                        .ptr;
  const std::string_view digits(buffer, static_cast<size_t>(end - buffer));
  out += digits;
  if (digits.find_first_of(".e") == digits.npos) out += ".0";  // stays a double when read back
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    const auto c = static_cast<unsigned char>(text[0]);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (length == 0) {
          out += "\xef\xbf\xbd";  // U+FFFD for each byte that is not UTF-8
        } else if (c < 0x20) {
          out += format("\\u{:04x}", c);
        } else {
          out += text.substr(0, length);
        }
    }
    text.remove_prefix(std::max<size_t>(1, length));
  }
  out += '"';
}

void append_break(std::string& out, int indent, int depth) {
  if (indent < 0) return;
  out += '\n';
  out.append(static_cast<size_t>(indent) * static_cast<size_t>(depth), ' ');
}

void append_value(std::string& out, const Json& value, int indent, int depth) {
  bool first = true;
  const auto separate = [&] {
    if (!first) out += ',';
    first = false;
    append_break(out, indent, depth + 1);
  };
  if (value.is_array()) {
    out += '[';
    for (const Json& item : value.array()) {
      separate();
      append_value(out, item, indent, depth + 1);
    }
    if (!first) append_break(out, indent, depth);
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    for (const auto& [key, item] : value.object()) {
      separate();
      append_string(out, key);
      out += indent < 0 ? ":" : ": ";
      append_value(out, item, indent, depth + 1);
    }
    if (!first) append_break(out, indent, depth);
    out += '}';
  } else if (value.is_string()) {
    append_string(out, value.string());
  } else if (value.is_int()) {
    out += format("{}", value.integer());
  } else if (value.is_number()) {
    append_number(out, value.number());
  } else if (value.is_bool()) {
    out += value.boolean() ? "true" : "false";
  } else {
    out += "null";
  }
}

}  // namespace

Json Json::parse(std::string_view text, const std::string& where, int max_depth, Repeats repeats) {
  const char* at = text.data();
  const char* end = text.data() + text.size();
  Builder builder(text, where, max_depth, repeats, &at);
  // The library takes a NUL byte for the end of its input.
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    builder.fail(nul + 1, "a NUL byte, which JSON does not allow");
  }
  if (trim(text).empty()) builder.fail(text.size(), "the text is empty");
  nlohmann::json::sax_parse(Cursor(&at), Cursor(&end), &builder);
  return builder.take();
}

const char* Json::kind() const {
  if (is_null()) return "null";
  if (is_bool()) return "a boolean";
  if (is_int()) return "an integer";
  if (is_number()) return "a number";
  if (is_string()) return "a string";
  return is_array() ? "an array" : "an object";
}

double Json::number() const {
  return is_int() ? static_cast<double>(integer()) : std::get<double>(value_);
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : object()) {
    if (name == key) return &value;
  }
  return nullptr;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  Object& entries = object();
  for (auto& [name, value] : entries) {
    if (name == key) return value;
  }
  return entries.emplace_back(std::string(key), Json()).second;
}

void Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  array().push_back(std::move(value));
}

std::string Json::dump(int indent) const {
  std::string out;
  append_value(out, *this, indent, 0);
  return out;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/json_text.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "tephra/base/format.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

// 0: as it is; 'u': as \u00XX; else the letter after the backslash.
constexpr std::array<char, 256> make_escapes() {
  std::array<char, 256> escapes{};
  for (size_t c = 0; c < 0x20; ++c) escapes[c] = 'u';
  escapes['\b'] = 'b';
  escapes['\f'] = 'f';
  escapes['\n'] = 'n';
  escapes['\r'] = 'r';
  escapes['\t'] = 't';
  escapes['"'] = '"';
  escapes['\\'] = '\\';
  return escapes;
}

constexpr std::array<char, 256> kEscapes = make_escapes();

// Whether one of eight bytes is to be escaped: below a space, a quote or a backslash. The usual
// arithmetic on bytes within a word; a byte above 0x7f is never taken for one.
bool any_escape(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;
  const auto has_zero = [](uint64_t w) { return (w - kOnes) & ~w & kHighs; };
  const uint64_t control = (word - 0x20 * kOnes) & ~word & kHighs;
  return (control | has_zero(word ^ '"' * kOnes) | has_zero(word ^ '\\' * kOnes)) != 0;
}

// The first byte from `at` on that is to be escaped, or the end.
size_t next_escape(std::string_view text, size_t at) {
  for (uint64_t word = 0; at + 8 <= text.size(); at += 8) {
    std::memcpy(&word, text.data() + at, 8);
    if (any_escape(word)) break;
  }
  while (at < text.size() && kEscapes[static_cast<unsigned char>(text[at])] == 0) ++at;
  return at;
}

// After the string that begins at `at` with its quote.
size_t end_of_string(std::string_view json, size_t at) {
  ++at;
  while (at < json.size()) {
    at = json.find_first_of("\"\\", at);
    if (at == std::string_view::npos) return json.size();
    if (json[at] == '"') return at + 1;
    at += 2;  // a backslash and what it stands before
  }
  return json.size();
}

// After the value that begins at `at`.
size_t end_of_value(std::string_view json, size_t at) {
  int depth = 0;
  while (at < json.size()) {
    const char c = json[at];
    if (c == '"') {
      at = end_of_string(json, at);
      if (depth == 0) return at;
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    }
    if (c == ',' && depth == 0) return at;
    ++at;
  }
  return at;
}

size_t skip_blanks(std::string_view json, size_t at) {
  while (at < json.size() && std::string_view(" \t\r\n").find(json[at]) != std::string_view::npos) {
    ++at;
  }
  return at;
}

std::string_view without_brace(std::string_view object) {
  object = trim(object);
  object.remove_suffix(1);
  return trim(object);
}

}  // namespace

void append_json_string(std::string& out, std::string_view utf8) {
  out += '"';
  size_t copied = 0;
  for (size_t i = next_escape(utf8, 0); i < utf8.size(); i = next_escape(utf8, i + 1)) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    const char escape = kEscapes[c];
    out.append(utf8, copied, i - copied);
    out += '\\';
    if (escape == 'u') {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out += "u00";
      out += kDigits[c >> 4];
      out += kDigits[c & 15];
    } else {
      out += escape;
    }
    copied = i + 1;
  }
  out.append(utf8, copied, utf8.size() - copied);
  out += '"';
}

std::optional<ByteRange> find_json_value(std::string_view object, std::string_view field) {
  size_t at = skip_blanks(object, 0) + 1;  // after the brace
  for (;;) {
    at = skip_blanks(object, at);
    if (at >= object.size() || object[at] != '"') return std::nullopt;
    const size_t key = at + 1;
    at = end_of_string(object, at);
    const std::string_view name = object.substr(key, at - 1 - key);
    at = skip_blanks(object, at) + 1;  // after the colon
    at = skip_blanks(object, at);
    if (at >= object.size()) return std::nullopt;
    const size_t end = end_of_value(object, at);
    if (name == field) return ByteRange{at, at + trim(object.substr(at, end - at)).size()};
    at = skip_blanks(object, end);
    if (at >= object.size() || object[at] != ',') return std::nullopt;
    ++at;
  }
}

void append_with_value(std::string& out, std::string_view object, std::string_view field,
                       std::string_view json) {
  const auto range = find_json_value(object, field);
  if (!range) return append_with_field(out, object, field, json);
  out += object.substr(0, range->begin);
  out += json;
  out += object.substr(range->end);
}

void append_with_string(std::string& out, std::string_view object, std::string_view field,
                        std::string_view value) {
  std::string json;
  append_json_string(json, value);
  append_with_value(out, object, field, json);
}

void append_with_field(std::string& out, std::string_view object, std::string_view field,
                       std::string_view json) {
  const std::string_view open = without_brace(object);
  out += open;
  if (open != "{") out += ',';
  append_json_string(out, field);
  out += ':';
  out += json;
  out += '}';
}

// The last quote ends the last string, so the one before it, if no backslash stands there, begins
// it; what stands between two such quotes and before a colon is a key.
bool ends_with_string(std::string_view object, std::string_view field) {
  if (!object.ends_with("\"}")) return false;
  object.remove_suffix(2);
  const size_t quote = object.find_last_of("\"\\");
  if (quote == std::string_view::npos || object[quote] != '"') return false;
  object = object.substr(0, quote);
  for (const std::string_view part : {std::string_view("\":"), field, std::string_view("\"")}) {
    if (!object.ends_with(part)) return false;
    object.remove_suffix(part.size());
  }
  return object.ends_with(',') || object == "{";
}

bool may_have_key(std::string_view object, std::string_view field) {
  const std::string quoted = format("\"{}\"", field);
  if (::memmem(object.data(), object.size(), quoted.data(), quoted.size()) != nullptr) return true;
  constexpr std::string_view kEscape = "\\u00";  // of letters, which nobody needs to escape
  for (size_t at = object.find(kEscape); at != std::string_view::npos;
       at = object.find(kEscape, at + 1)) {
    const size_t digit = at + kEscape.size();
    if (digit < object.size() && object[digit] >= '2' && object[digit] <= '7') return true;
  }
  return false;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Fields of a JSON object on a line, by simdjson: the fast path of large corpora.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "tephra/base/function_ref.h"

namespace tephra {

// One field of an object.
struct JsonField {
  enum class Kind { null, boolean, integer, real, string, list, json };

  std::string_view key;
  Kind kind = Kind::null;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  // Of a string its value; of a real number, an array, an object or an integer beyond 64 bits the
  // JSON, without spaces.
  std::string_view text;
  // Of a list: an array of at most 65,536 elements without arrays, objects or such integers. Reals
  // in it have no text.
  std::span<const JsonField> elements;
};

// Keeps its memory from line to line: one a thread.
class JsonLine {
 public:
  JsonLine();
  ~JsonLine();

  // The value of `field`; valid until the next call. Fault::data (what is wrong, without the place)
  // when the line is no object with that string.
  std::string_view string_field(std::string_view line, std::string_view field);

  // The same where 64 readable bytes follow the line, so that it need not be copied. Afterwards,
  // until the next call, other fields of the line can be asked for.
  std::string_view padded_string_field(std::string_view line, std::string_view field);
  // Nothing when there is no such field; Fault::data when it is no string.
  std::optional<std::string_view> find_string(std::string_view field) const;
  std::optional<double> find_number(std::string_view field) const;

  // Calls `use` with each field in order; 64 readable bytes follow the line.
  void each_padded_field(std::string_view line, FunctionRef<void(const JsonField&)> use);

 private:
  struct Parser;
  void parse(std::string_view line, bool padded);
  void need_object(std::string_view line);
  std::string_view field_of(std::string_view line, std::string_view field);

  std::unique_ptr<Parser> parser_;
};

}  // namespace tephra

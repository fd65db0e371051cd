// SPDX-License-Identifier: Apache-2.0
// JSON lines put together without parsing them again: strings escaped, one field of a valid object
// replaced or added, all other bytes as they were.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tephra {

void append_json_string(std::string& out, std::string_view utf8);  // with its quotes

struct ByteRange {
  size_t begin = 0, end = 0;
};

// Where the value of the first field of that name lies in an object that is valid JSON; nothing
// when there is none under that spelling.
std::optional<ByteRange> find_json_value(std::string_view object, std::string_view field);

// The object with `json` as the value of the field; added at the end when it is not there.
void append_with_value(std::string& out, std::string_view object, std::string_view field,
                       std::string_view json);
// The same with a string, which is escaped.
void append_with_string(std::string& out, std::string_view object, std::string_view field,
                        std::string_view value);

// `object` with another field at its end; `json` is the value as it is to be written.
void append_with_field(std::string& out, std::string_view object, std::string_view field,
                       std::string_view json);

// Of an object that is valid JSON without spaces around it, and without parsing it:
// whether its last field is this one and a string without escapes, as append_with_field leaves it;
bool ends_with_string(std::string_view object, std::string_view field);
// false when no key of it, at any depth, is this one, however it is spelt.
bool may_have_key(std::string_view object, std::string_view field);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Python's str on UTF-8: code points, case, white space, splitting, literals and how numbers and
// strings print. Indices count code points.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tephra::jinja {

std::u32string code_points(std::string_view text);
void append_code_point(std::string& out, char32_t c);
std::string utf8(std::u32string_view points);
int64_t count_code_points(std::string_view text);
size_t byte_offset(std::string_view text, int64_t code_point);  // clamped to the end

bool is_white_space(char32_t c);
std::string_view stripped_left(std::string_view text);
std::string_view stripped_right(std::string_view text);
// Without the given characters (white space when none are given) at the chosen ends.
std::string_view stripped(std::string_view text, const std::string* characters, bool left,
                          bool right);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);
std::string capitalized(std::string_view text);
std::string case_swapped(std::string_view text);

enum class CharacterClass { alpha, digit, decimal, numeric, alnum, space, printable, ascii };
bool all_of_class(std::string_view text, CharacterClass wanted);
bool is_lower_text(std::string_view text);
bool is_upper_text(std::string_view text);
bool is_title_text(std::string_view text);
bool is_word_character(char32_t c);         // \w
size_t name_length(std::string_view text);  // bytes of the identifier it starts with

// Where `part` begins, in bytes, from `from` on; npos when nowhere. Linear in both.
size_t find_part(std::string_view text, std::string_view part, size_t from = 0);
std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     int64_t count);  // count < 0: all
int64_t count_part(std::string_view text, std::string_view part);

// limit < 0: no limit.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       int64_t limit, bool from_right);
std::vector<std::string_view> split_words(std::string_view text, int64_t limit, bool from_right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

std::string unescaped(std::string_view literal);   // the escapes of a Python string literal
std::string python_quoted(std::string_view text);  // repr()
std::string escaped_html(std::string_view text);
std::string float_text(double value);  // repr(): the shortest digits that read back
std::optional<double> parse_float(std::string_view text);
std::optional<int64_t> parse_integer(std::string_view text, int64_t base);  // fails beyond 64 bits

}  // namespace tephra::jinja

// SPDX-License-Identifier: Apache-2.0
// Small text helpers: splitting, UTF-8, sizes for people, and the nearest name for "did you mean".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

std::string_view trim(std::string_view text);  // without spaces, tabs, newlines at both ends
std::vector<std::string_view> split(std::string_view text, char separator);  // keeps empty pieces

// Bytes of the valid UTF-8 sequence that `text` starts with; 0 when it starts with none.
size_t utf8_sequence(std::string_view text);
bool is_utf8(std::string_view text);

// For messages that quote a file: at most `max_bytes`, cut between UTF-8 sequences and marked with
// "..." when cut; control characters, which could command a terminal, become '?'.
std::string clipped(std::string_view text, size_t max_bytes);

// Insertions, deletions, replacements and swaps of neighbours that turn one into the other.
int64_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest edit distance, the first of equals; nothing when none is close
// enough to be a slip of the same name.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

// "5GB", "200 MiB", "4096": decimal and binary units; nothing when it is no size.
std::optional<int64_t> parse_bytes(std::string_view text);

std::string human_bytes(int64_t bytes);  // "512 B", "40.0 KiB", "17.7 GiB"
std::string human_count(int64_t count);  // "8,840,489,464"

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Hand-written scanners for the split patterns that published tokenizers use. Each finds the same
// pieces as its pattern does (tests compare them with PCRE2), several times faster.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

// Bytes of the piece that a non-empty text starts with. These patterns leave nothing unmatched, so
// pieces follow each other without gaps.
using SplitScanner = size_t (*)(const char* begin, const char* end);

// The scanner of a pattern, recognised by its exact text; null for others.
SplitScanner find_split_scanner(std::string_view pattern);

// ByteLevel's own pattern (GPT-2).
extern const std::string_view kGpt2Pattern;

struct KnownPattern {
  std::string_view name;
  std::string_view pattern;
};
std::vector<KnownPattern> known_split_patterns();

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// What the filters of Zyda-1 measure of a text, in one pass over it (docs/data-pipeline.md gives
// the definitions). Lengths count code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tephra/data/filter/preset.h"

namespace tephra {

struct Zyda1Counts {
  int64_t length = 0;       // of the text
  int64_t transformed = 0;  // of the text after zyda1_transform
  int64_t separators = 0;   // at which words are cut
  int64_t pieces = 0;       // words that are not empty
  int64_t other = 0;        // neither word characters nor space
  int64_t digits = 0;
  int64_t same_runs = 0;  // at least 7 equal word characters, after the transform
  int64_t xml = 0, xml_version = 0, lorem_ipsum = 0, https = 0, less = 0, greater = 0,
          quote_colon = 0, www = 0;

  double mean_word_length(FilterMode mode) const;
};

Zyda1Counts zyda1_counts(std::string_view text, FilterMode mode);

// Runs of ten or more (spaces 40, tabs 20) of certain characters become one of them.
void zyda1_transform(std::string_view text, std::string& out);

// At least how many of this character become one; 0: they stay.
int64_t zyda1_run_limit(uint32_t code_point);

}  // namespace tephra

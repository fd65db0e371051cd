// SPDX-License-Identifier: Apache-2.0
// Texts for deduplication.
#pragma once

#include <random>
#include <string>

namespace tephra {

// Its words are of letters alone: FineWeb takes all numbers for the same one, also inside words.
inline std::string random_sentence(std::mt19937& random, size_t words) {
  std::string text;
  for (size_t i = 0; i < words; ++i) {
    text += 'w';
    for (const char digit : std::to_string(random() % 50000)) {
      text += static_cast<char>('a' + (digit - '0'));
    }
    text += ' ';
  }
  return text;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// What each byte of a text is to the normalisation of words, 64 at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tephra {

// A class of ASCII characters: bit (c / 16) of rows[c % 16] says whether c is in it.
struct AsciiClass {
  std::array<uint8_t, 16> rows{};

  constexpr void add(int c) {
    rows[static_cast<size_t>(c % 16)] |= static_cast<uint8_t>(1 << c / 16);
  }
  constexpr bool has(int c) const { return rows[static_cast<size_t>(c % 16)] >> (c / 16) & 1; }
};

struct AsciiClasses {
  AsciiClass chars, gaps, numbers;
};

// Bit i of each is byte i of the block.
struct AsciiMasks {
  uint64_t chars = 0, gaps = 0, numbers = 0;
  uint64_t wide = 0;  // beyond ASCII
};

inline constexpr size_t kAsciiBlock = 64;

// Of whole blocks; `lowered` gets their bytes with small letters and each number as 0.
void classify_ascii(const char* text, size_t blocks, const AsciiClasses& classes, AsciiMasks* masks,
                    char* lowered);

}  // namespace tephra

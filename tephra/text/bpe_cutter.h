// SPDX-License-Identifier: Apache-2.0
// Exact places to cut a long piece. A merge across a place makes a token in which the two units at
// that place (bytes, or characters) are neighbours. Where no token made by a merge has them as
// neighbours, no merge can cross: both sides can be encoded alone, whatever the ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tephra/base/function_ref.h"

namespace tephra {

class BpeCutter {
 public:
  explicit BpeCutter(bool bytes = false) : bytes_(bytes) {}

  void learn(std::string_view token);  // one that a merge makes

  // Bytes of the first segment of a non-empty piece.
  size_t segment(std::string_view piece) const {
    return bytes_ ? byte_segment(piece) : character_segment(piece);
  }

 private:
  // ASCII and U+2581 have a class of their own, other characters share the rest: two that share one
  // only make cuts rarer.
  struct Unit {
    uint8_t kind;
    uint8_t bytes;
  };
  static Unit unit_at(const char* p);
  size_t byte_segment(std::string_view piece) const;
  size_t character_segment(std::string_view piece) const;
  bool joined(uint8_t a, uint8_t b) const { return joined_[a][b >> 3] >> (b & 7) & 1; }

  bool bytes_;
  std::array<std::array<uint8_t, 32>, 256> joined_{};
};

}  // namespace tephra

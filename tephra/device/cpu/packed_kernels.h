// SPDX-License-Identifier: Apache-2.0
// The parts of packed.cpp that are compiled for every instruction set.
#pragma once

#include <array>

#include "tephra/device/cpu/packed.h"

namespace tephra::cpu {

// The codes of q4, ascending. They are Lloyd's optimum for groups of 32 normal values whose scale,
// of either sign, is searched for least error: 7.3 % of the values' root mean square, where evenly
// spaced codes give 8.1 %.
inline constexpr std::array<uint8_t, 16> kCodes4 = {1,   28,  49,  66,  80,  94,  107, 119,
                                                    130, 141, 153, 164, 178, 193, 211, 236};

// The largest 16-bit value of an activation: 127 * 256, so that its high byte, rounded, has 8 bits.
inline constexpr int kActivationMax = 32512;

// Float rows in 16 bits. A group of a row is 64 bytes, arranged for the instruction set; a value is
// scale * q.
struct QuantisedRows {
  int64_t groups;
  int32_t* values;   // [rows, groups, 16]
  float* scales;     // [rows, groups]
  int32_t* offsets;  // [rows, groups]: what the zero of the codes adds to a sum, negated
};

// Row r of x, [k].
void quantise_row(const float* x, int64_t k, const QuantisedRows& to, int64_t r);

// Panels [panel_begin, panel_end) of the product by rows [row_begin, row_end) of x.
struct PackedTile {
  const PackedProduct& product;
  const QuantisedRows& x;
  int64_t panel_begin, panel_end;
  int64_t row_begin, row_end;
};
void packed_tile(const PackedTile& tile);

}  // namespace tephra::cpu

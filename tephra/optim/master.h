// SPDX-License-Identifier: Apache-2.0
// The f32 master of a bf16 weight in six bytes: the weight, which is the master rounded to nearest
// with ties away from zero, and what the rounding left of its bit pattern as a signed 16-bit
// number. (With ties to even the remainder would need a seventeenth bit.) NaN becomes the quiet
// NaN; every other pattern comes back as it was.
#pragma once

#include <bit>
#include <cstdint>

#include "tephra/base/number.h"

namespace tephra {

struct SplitMaster {
  bf16 weight = {};
  int16_t remainder = 0;
};

constexpr SplitMaster split_master(float master) {
  uint32_t u = std::bit_cast<uint32_t>(master);
  if ((u & 0x7fffffffu) > 0x7f800000u) u = (u & 0x80000000u) | 0x7fc00000u;
  SplitMaster s;
  s.weight.bits = static_cast<uint16_t>((u + 0x8000u) >> 16);
  s.remainder = static_cast<int16_t>(u - (uint32_t{s.weight.bits} << 16));
  return s;
}

constexpr float join_master(SplitMaster s) {
  const uint32_t high = uint32_t{s.weight.bits} << 16;
  return std::bit_cast<float>(high + static_cast<uint32_t>(int32_t{s.remainder}));
}

}  // namespace tephra

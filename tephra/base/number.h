// SPDX-License-Identifier: Apache-2.0
// Narrow floating-point types as plain values: bf16 computes (through float), f16 and fp8 are only
// read and converted. What is constexpr also runs on GPUs.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace tephra {

// Upper half of a float. Conversion rounds to nearest, ties to even; NaN stays NaN.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr explicit bf16(Number value) : bits(round(static_cast<float>(value))) {}
  constexpr operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  bool operator==(const bf16& other) const = default;

 private:
  static constexpr uint16_t round(float value) {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) {  // one instruction; every NaN becomes 0x7fff
      uint16_t rounded;
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
      return rounded;
    }
#endif
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
    return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
};

struct f16 {
  uint16_t bits = 0;

  f16() = default;
  explicit f16(float value);
  operator float() const;
};

// OCP e4m3: no infinities, 0x7f and 0xff are NaN, largest value 448.
struct fp8_e4m3 {
  uint8_t bits = 0;

  operator float() const;
};

// The type sums are kept in: double for double, float for the rest.
template <class T>
using acc_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace tephra

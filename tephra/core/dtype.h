// SPDX-License-Identifier: Apache-2.0
// Element types. f64, f32 and bf16 compute; the others index, or are only stored and converted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "tephra/base/error.h"
#include "tephra/base/number.h"

namespace tephra {

enum class DType { f64, f32, bf16, f16, fp8_e4m3, i64, i32, i16, i8, u8, boolean };

int64_t size_of(DType dtype);
std::string to_text(DType dtype);

// "f32", "float32", "bf16", "bfloat16" ...; nothing when the name is unknown.
std::optional<DType> parse_dtype(std::string_view name);

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
  if constexpr (std::is_same_v<T, f16>) return DType::f16;
  if constexpr (std::is_same_v<T, fp8_e4m3>) return DType::fp8_e4m3;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, int16_t>) return DType::i16;
  if constexpr (std::is_same_v<T, int8_t>) return DType::i8;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
}

// Types that carry gradients and that every op computes in.
inline bool computes(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16;
}

// The type of sums, statistics and gradients of weights: f64 for f64, else f32.
inline DType acc_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// Calls f.operator()<T>() with the C++ type of a computing dtype.
template <class F>
decltype(auto) visit_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<bf16>();
    default:
      throw Error(Fault::usage, format("expected f64, f32 or bf16, got {}", dtype));
  }
}

}  // namespace tephra

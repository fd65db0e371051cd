// SPDX-License-Identifier: Apache-2.0
// What the safetensors reader and writer share: limits and the format's names of element types.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "tephra/core/dtype.h"

namespace tephra::safetensors {

inline constexpr int64_t kLengthBytes = 8;
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr int64_t kHeaderAlignment = 8;
inline constexpr int64_t kCacheLine = 64;
inline constexpr std::string_view kMetadataKey = "__metadata__";

struct TypeName {
  DType dtype;
  std::string_view name;
};

inline constexpr std::array kTypeNames = {
    TypeName{DType::f64, "F64"},
    TypeName{DType::f32, "F32"},
    TypeName{DType::f16, "F16"},
    TypeName{DType::bf16, "BF16"},
    TypeName{DType::i64, "I64"},
    TypeName{DType::i32, "I32"},
    TypeName{DType::i16, "I16"},
    TypeName{DType::i8, "I8"},
    TypeName{DType::u8, "U8"},
    TypeName{DType::boolean, "BOOL"},
    TypeName{DType::fp8_e4m3, "F8_E4M3"},
};

inline std::optional<DType> parse_type(std::string_view name) {
  for (const TypeName& row : kTypeNames) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

inline std::string type_name(DType dtype) {
  for (const TypeName& row : kTypeNames) {
    if (row.dtype == dtype) return std::string(row.name);
  }
  throw Error(Fault::internal, format("safetensors has no name for {}", dtype));
}

}  // namespace tephra::safetensors

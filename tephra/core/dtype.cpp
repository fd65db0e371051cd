// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/dtype.h"

namespace tephra {
namespace {

struct Row {
  DType dtype;
  int64_t size;
  std::string_view name;
  std::string_view long_name;
};

constexpr Row kRows[] = {
    {DType::f64, 8, "f64", "float64"},
    {DType::f32, 4, "f32", "float32"},
    {DType::bf16, 2, "bf16", "bfloat16"},
    {DType::f16, 2, "f16", "float16"},
    {DType::fp8_e4m3, 1, "fp8_e4m3", "float8_e4m3fn"},
    {DType::i64, 8, "i64", "int64"},
    {DType::i32, 4, "i32", "int32"},
    {DType::i16, 2, "i16", "int16"},
    {DType::i8, 1, "i8", "int8"},
    {DType::u8, 1, "u8", "uint8"},
    {DType::boolean, 1, "bool", "boolean"},
};

}  // namespace

int64_t size_of(DType dtype) { return kRows[static_cast<size_t>(dtype)].size; }

std::string to_text(DType dtype) { return std::string(kRows[static_cast<size_t>(dtype)].name); }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name || name == row.long_name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace tephra

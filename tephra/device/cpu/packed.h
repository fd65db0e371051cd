// SPDX-License-Identifier: Apache-2.0
// Quantised weights as the kernels read them, and their products with float rows.
//
// A matrix [rows, cols] is cut into panels of 16 rows, and a panel into groups of 32 columns. Each
// row of a group has one bf16 scale; a weight is scale * (code - 128) with an 8-bit code: stored
// whole (q8), or as an index into 16 codes (q4). A vector of 64 bytes holds 16 rows by 4 columns
// (q8) or 8 (q4), so a lane is a row and no sum crosses lanes. What lies beyond the matrix has
// scale zero. docs/formats/packed-weights.md gives the bytes.
//
// Float rows are quantised to 16 bits with a scale for each group. Sums within a group are exact
// integers, and groups are added in order by one fused multiply-add: a result's bits depend neither
// on the other rows, nor on the number of them, of threads, or the instruction set (with FMA).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tephra/base/number.h"

namespace tephra {

enum class PackedFormat { q8, q4 };

}  // namespace tephra

namespace tephra::cpu {

inline constexpr int64_t kPanelRows = 16;
inline constexpr int64_t kGroupColumns = 32;
inline constexpr int64_t kCodeZero = 128;  // the code that stands for 0

struct PackedLayout {
  PackedFormat format;
  int64_t rows, cols;

  constexpr int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  constexpr int64_t groups() const { return (cols + kGroupColumns - 1) / kGroupColumns; }
  // A panel: the scales of all groups, then the codes of all groups.
  constexpr int64_t scale_bytes() const { return groups() * kPanelRows * 2; }
  constexpr int64_t code_bytes() const { return groups() * group_bytes(); }
  constexpr int64_t group_bytes() const {
    return kPanelRows * kGroupColumns / (format == PackedFormat::q8 ? 1 : 2);
  }
  constexpr int64_t panel_bytes() const { return scale_bytes() + code_bytes(); }
  constexpr int64_t bytes() const { return panels() * panel_bytes(); }
};

struct PackedMatrix {
  PackedLayout layout;
  const std::byte* data;

  const std::byte* panel(int64_t p) const { return data + p * layout.panel_bytes(); }
};

// Rows [first, first + count) of x times W^T, plus bias, into the same rows of y.
struct PackedProduct {
  PackedMatrix weight;
  int64_t first, count;
  float* y;  // row 0, whatever `first` is
  int64_t ldy;
  const float* bias = nullptr;  // [rows of W]
};

// x is [m, k], all products have k columns; their results do not overlap. On all threads.
void packed_gemm(const float* x, int64_t m, int64_t k, int64_t ldx,
                 std::span<const PackedProduct> products);

// Quantises all of `from`, [rows, cols] dense, into layout.bytes() bytes. `search` looks for the
// scale of least squared error where the codes are few, which takes some times longer.
void pack(const PackedLayout& layout, const float* from, bool search, std::byte* to);

// Row `row` of the matrix as floats.
void unpack_row(const PackedMatrix& weight, int64_t row, float* to);

}  // namespace tephra::cpu

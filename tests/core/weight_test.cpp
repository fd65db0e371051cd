// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/weight.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/message_of.h"

namespace tephra {
namespace {

PackedWeight room_for(const Shape& shape, PackedFormat format) {
  return {format, shape, Tensor(packed_shape(format, shape), DType::u8)};
}

TEST(PackedWeight, RowsAreThoseOfTheWhole) {
  for (const PackedFormat format : {PackedFormat::q8, PackedFormat::q4}) {
    Tensor value({50, 40}, DType::f32);
    fill_normal(value, {1, 2, 0}, 0, 1);
    const PackedWeight weight = pack_weight(value, format, /*search=*/false);
    const Tensor all(value.shape(), DType::bf16), some({18, 40}, DType::bf16);
    unpack_weight(weight, all);
    unpack_rows(weight, 32, some);
    EXPECT_TRUE(same_bits(some, all.slice_rows(32, 50)));
    EXPECT_NE(message_of([&] { unpack_rows(weight, 8, some); }).find("from 8 on"),
              std::string::npos);
    EXPECT_NE(message_of([&] { unpack_rows(weight, 48, some); }).find("from 48 on"),
              std::string::npos);
  }
}

TEST(PackedWeight, DrawnOnesHaveTheWantedSizeAndNothingBeyondTheMatrix) {
  for (const PackedFormat format : {PackedFormat::q8, PackedFormat::q4}) {
    const PackedWeight weight = room_for({3, 40, 96}, format);
    draw_packed(weight, {5, 6, 0}, 0.02);
    const Tensor wide(weight.shape(), DType::f32);
    unpack_weight(weight, wide);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < wide.numel(); ++i) {
      sum += wide.at(i);
      squares += wide.at(i) * wide.at(i);
    }
    EXPECT_NEAR(sum / double(wide.numel()), 0, 8e-4) << to_text(format);
    EXPECT_NEAR(std::sqrt(squares / double(wide.numel())), 0.02, 1e-3) << to_text(format);
    // Rows 40 to 47 of the last panel.
    const auto* scales = reinterpret_cast<const bf16*>(weight.matrix(1).panel(2));
    for (int row = 0; row < 16; ++row) {
      EXPECT_EQ(float(scales[row]) == 0, row >= 8) << to_text(format) << " row " << row;
    }
    if (format == PackedFormat::q4) continue;
    const cpu::PackedMatrix last = weight.matrix(2);
    for (int64_t i = last.layout.scale_bytes(); i < last.layout.panel_bytes(); ++i) {
      ASSERT_NE(last.data[i], std::byte{0}) << "no code is 0, byte " << i;
    }
  }
}

}  // namespace
}  // namespace tephra

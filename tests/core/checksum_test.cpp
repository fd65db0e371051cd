// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/checksum.h"

#include <gtest/gtest.h>

#include "tephra/base/parallel.h"
#include "tephra/device/gpu/runtime.h"

namespace tephra {
namespace {

Tensor counted(int64_t rows, int64_t cols, DType dtype) {
  const Tensor t({rows, cols}, dtype);
  for (int64_t i = 0; i < t.numel(); ++i) t.set(i, static_cast<double>(i % 251) - 17);
  return t;
}

TEST(Checksum, IsTheSumOverWordsOfAMixOfWordAndPlace) {
  const Tensor x = counted(3, 5, DType::bf16);
  uint64_t want = 0;
  for (int64_t i = 0; i < 15; ++i) {
    want += kernel::mixed_word(static_cast<uint64_t>(i), x.data<bf16>()[i].bits);
  }
  EXPECT_EQ(checksum(x), want);
  EXPECT_EQ(checksum(Tensor({0, 5}, DType::f32)), 0u);
}

TEST(Checksum, ChangesWithABitAndWithTheOrder) {
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64, DType::i64}) {
    const Tensor x = counted(70, 130, dtype), other = clone(x);
    EXPECT_EQ(checksum(x), checksum(other));
    *static_cast<uint8_t*>(other.raw()) ^= 1;
    EXPECT_NE(checksum(x), checksum(other)) << to_text(dtype);
    const Tensor swapped = clone(x);
    swapped.set(1, x.at(2));
    swapped.set(2, x.at(1));
    EXPECT_NE(checksum(x), checksum(swapped)) << to_text(dtype);
  }
}

TEST(Checksum, RefusesBlocksOfColumns) {
  EXPECT_THROW(checksum(counted(4, 8, DType::f32).column_view(0, 4)), Error);
}

TEST(GpuChecksum, IsThatOfTheCpu) {
  if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
  for (const int64_t rows : {1, 257, 3000}) {
    const Tensor x = counted(rows, 333, DType::bf16);
    EXPECT_EQ(checksum(to_device(x, {Device::Kind::gpu, 0})), checksum(x));
  }
}

}  // namespace
}  // namespace tephra

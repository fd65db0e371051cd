// SPDX-License-Identifier: Apache-2.0
// The f32 master in six bytes: by the scalar functions, and by the vectors of the update kernels.
#include "tephra/optim/master.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/optim/update.h"

namespace tephra {
namespace {

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }
float from_bits(uint32_t u) { return std::bit_cast<float>(u); }

// Whether the master of this pattern is kept: exactly, or as some NaN of the same sign.
bool survives(uint32_t u) {
  const SplitMaster s = split_master(from_bits(u));
  const float back = join_master(s);
  if (std::isnan(from_bits(u))) {
    return std::isnan(back) && std::isnan(float(s.weight)) && (bits(back) >> 31) == (u >> 31);
  }
  return bits(back) == u;
}

// The weight is one of the two bf16 values around the master, and none is nearer. Beyond the
// largest bf16 the distance is to the value that would come next.
bool nearest(uint32_t u) {
  const float x = from_bits(u);
  if (!std::isfinite(x)) return true;
  const auto value = [](uint32_t high) {
    return high == 0x7f80u ? std::ldexp(1.0, 128) : double(from_bits(high << 16));
  };
  const uint32_t magnitude = u & 0x7fffffffu;
  const uint32_t low = magnitude >> 16, weight = split_master(x).weight.bits & 0x7fffu;
  if (weight != low && weight != low + 1) return false;
  const double m = double(std::abs(x));
  const double below = m - value(low), above = value(low + 1) - m;
  return weight == low ? below < above : above <= below;
}

constexpr uint32_t kLowEdges[] = {0, 1, 2, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0x8002, 0xfffe, 0xffff};

TEST(Master, IsTheNearestWeightAndWhatIsLeft) {
  for (uint32_t high = 0; high < 0x10000u; ++high) {
    for (const uint32_t low : kLowEdges) {
      const uint32_t u = high << 16 | low;
      ASSERT_TRUE(survives(u)) << std::hex << u;
      ASSERT_TRUE(nearest(u)) << std::hex << u;
    }
  }
}

TEST(Master, RoundsTiesAwayFromZeroAndTheLargestToInfinity) {
  EXPECT_EQ(split_master(from_bits(0x3f808000u)).weight.bits, 0x3f81);
  EXPECT_EQ(split_master(from_bits(0x3f808000u)).remainder, -0x8000);
  EXPECT_EQ(split_master(from_bits(0x3f807fffu)).weight.bits, 0x3f80);
  EXPECT_EQ(split_master(from_bits(0xbf808000u)).weight.bits, 0xbf81);
  const SplitMaster largest = split_master(std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isinf(float(largest.weight)));
  EXPECT_EQ(join_master(largest), std::numeric_limits<float>::max());
  EXPECT_EQ(bits(join_master(split_master(-0.0f))), 0x80000000u);
}

// All masters at once through a kernel that changes nothing: an update of zero.
bool kernel_keeps(const std::vector<uint32_t>& patterns) {
  const auto n = static_cast<int64_t>(patterns.size());
  const MasterValues p{Tensor({n}, DType::bf16), Tensor({n}, DType::i16)};
  for (int64_t i = 0; i < n; ++i) {
    const SplitMaster s = split_master(from_bits(patterns[static_cast<size_t>(i)]));
    p.values.data<bf16>()[i] = s.weight;
    p.remainder.data<int16_t>()[i] = s.remainder;
  }
  const Tensor before = clone(p.values), rest = clone(p.remainder);
  const Tensor none = zeros({n}, DType::f32);
  const StepScalars scalars{.lr = 1};
  std::vector<Piece> pieces;
  cut_pieces({0, 0, n, 1, 1, 0}, pieces);
  kernel::MuonUpdate{p, none, pieces, &scalars}.on_cpu();
  return same_bits(p.values, before) && same_bits(p.remainder, rest);
}

TEST(Master, GoesThroughTheVectorsUnchanged) {
  std::vector<uint32_t> patterns;
  for (uint32_t high = 0; high < 0x10000u; ++high) {
    for (const uint32_t low : kLowEdges) patterns.push_back(high << 16 | low);
  }
  // 0 - 0 is +0, so that -0 does not survive an update; nothing else changes.
  std::erase(patterns, 0x80000000u);
  EXPECT_TRUE(kernel_keeps(patterns));
  patterns.resize(77);  // and the last few of a row
  EXPECT_TRUE(kernel_keeps(patterns));
}

// Every one of the 2^32 patterns.
TEST(MasterSlow, KeepsEveryPattern) {
  std::atomic<int64_t> wrong{0};
  parallel_for(int64_t{1} << 32, 1 << 22, [&](int64_t begin, int64_t end) {
    int64_t bad = 0;
    for (int64_t u = begin; u < end; ++u) bad += survives(static_cast<uint32_t>(u)) ? 0 : 1;
    wrong += bad;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tephra

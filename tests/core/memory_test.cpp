// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "tephra/core/tensor.h"

namespace tephra {
namespace {

MemoryUse use_of(Purpose purpose) { return memory_use()[static_cast<size_t>(purpose)]; }

TEST(Memory, IsCountedByPurposeAndInAll) {
  const int64_t cache = use_of(Purpose::cache).bytes, weights = use_of(Purpose::weights).bytes;
  const int64_t all = memory_use()[kNumPurposes].bytes;
  {
    const Tensor t({1000}, DType::f32, kCpu, Purpose::cache);
    const int64_t taken = use_of(Purpose::cache).bytes - cache;
    EXPECT_GE(taken, 4000);
    EXPECT_LE(taken, 4096);
    EXPECT_EQ(memory_use()[kNumPurposes].bytes - all, taken);
    EXPECT_EQ(use_of(Purpose::weights).bytes, weights);
  }
  EXPECT_EQ(use_of(Purpose::cache).bytes, cache);
  EXPECT_EQ(memory_use()[kNumPurposes].bytes, all);
}

TEST(Memory, LivesAsLongAsItsLastView) {
  const int64_t before = use_of(Purpose::optimizer).bytes;
  Tensor view;
  {
    const Tensor t({10, 10}, DType::f32, kCpu, Purpose::optimizer);
    view = t.column_view(2, 4);
  }
  EXPECT_GT(use_of(Purpose::optimizer).bytes, before);
  view = {};
  EXPECT_EQ(use_of(Purpose::optimizer).bytes, before);
}

TEST(Memory, PeakStaysUntilItIsReset) {
  const int64_t live = use_of(Purpose::workspace).bytes;
  { const Tensor t({1 << 20}, DType::u8, kCpu, Purpose::workspace); }
  EXPECT_GE(use_of(Purpose::workspace).peak_bytes, live + (1 << 20));
  reset_memory_peaks();
  EXPECT_EQ(use_of(Purpose::workspace).peak_bytes, live);
}

TEST(Memory, RoundsLargeBlocksByAtMostAnEighth) {
  for (const int64_t bytes : {100'000, 1'000'001, 33'554'433}) {
    const int64_t before = use_of(Purpose::cache).bytes;
    const auto block = Storage::allocate(kCpu, bytes, Purpose::cache);
    const int64_t taken = use_of(Purpose::cache).bytes - before;
    EXPECT_GE(taken, bytes);
    EXPECT_LE(taken, bytes + bytes / 8);
  }
}

TEST(Memory, KeepsNoMoreFreedBytesThanWereEverInUseAtOnce) {
  trim_memory();
  EXPECT_EQ(kept_memory(), 0);
  int64_t most = 0, freed = 0;
  for (int64_t mib = 64; mib < 128; ++mib) {
    const auto block = Storage::allocate(kCpu, mib << 20, Purpose::cache);
    most = std::max(most, memory_use()[kNumPurposes].bytes);
    freed += mib << 20;
  }
  ASSERT_GT(freed, 16 * most);
  EXPECT_LE(kept_memory(), most);
#ifndef TEPHRA_SANITIZED
  EXPECT_GT(kept_memory(), 0);
#endif
  trim_memory();
}

#ifndef TEPHRA_SANITIZED
TEST(Memory, SmallBlocksServeTheirThreadAgain) {
  const void* first = Storage::allocate(kCpu, 1000, Purpose::cache)->data();
  const auto again = Storage::allocate(kCpu, 1001, Purpose::cache);
  EXPECT_EQ(again->data(), first);
  const auto other = Storage::allocate(kCpu, 1001, Purpose::cache);
  EXPECT_NE(other->data(), again->data());
}
#endif

// Given back by a thread that did not take them, and while a thread ends.
TEST(Memory, SmallBlocksMoveBetweenThreads) {
  std::vector<std::shared_ptr<Storage>> blocks;
  const auto take = [&] {
    for (int64_t i = 0; i < 4096; ++i) {  // 8 MiB, more than a thread keeps
      blocks.push_back(Storage::allocate(kCpu, 64 * (i % 64 + 1), Purpose::cache));
      std::memset(blocks.back()->data(), 1, static_cast<size_t>(blocks.back()->bytes()));
    }
  };
  const int64_t before = memory_use()[kNumPurposes].bytes;
  std::thread(take).join();
  std::thread([&] {
    thread_local std::vector<std::shared_ptr<Storage>> late;  // goes after the thread's own blocks
    late = std::move(blocks);
    take();
  }).join();
  blocks.clear();
  EXPECT_EQ(memory_use()[kNumPurposes].bytes, before);
}

TEST(Memory, OfNothingIsNothing) {
  const int64_t before = memory_use()[kNumPurposes].bytes;
  const Tensor t({0, 7}, DType::f32);
  EXPECT_EQ(memory_use()[kNumPurposes].bytes, before);
  EXPECT_TRUE(t.defined());
}

TEST(Memory, OfSomebodyElseIsNotCountedAndKeepsItsOwner) {
  auto owner = std::make_shared<std::vector<float>>(4, 2.0f);
  const std::weak_ptr<std::vector<float>> watch = owner;
  const int64_t before = memory_use()[kNumPurposes].bytes;
  {
    float* data = owner->data();
    const Tensor t(Storage::wrap(data, 16, std::move(owner)), 0, {4}, DType::f32);
    EXPECT_EQ(t.at(3), 2);
    EXPECT_EQ(memory_use()[kNumPurposes].bytes, before);
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Memory, PoisonShowsWhatNobodyWrote) {
  poison_new_memory(true);
  const Tensor f({300'000}, DType::f32), b({3}, DType::bf16), d({3}, DType::f64);
  poison_new_memory(false);
  EXPECT_TRUE(std::isnan(f.at(299'999)));
  EXPECT_TRUE(std::isnan(b.at(0)));
  EXPECT_TRUE(std::isnan(d.at(2)));
}

TEST(Memory, ThatDoesNotFitSaysForWhat) {
  try {
    const Tensor t({int64_t{1} << 50}, DType::f32, kCpu, Purpose::cache);
    FAIL() << "four petabytes were given";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::device);
    EXPECT_NE(std::string(e.what()).find("4503599627370496 bytes for cache do not fit"),
              std::string::npos)
        << e.what();
    EXPECT_FALSE(e.hint().empty());
  }
}

TEST(Device, ReadsItsName) {
  EXPECT_EQ(parse_device("cpu"), kCpu);
  EXPECT_EQ(to_text(kCpu), "cpu");
  EXPECT_THROW(parse_device("tpu"), Error);
}

}  // namespace
}  // namespace tephra

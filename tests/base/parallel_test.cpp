// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/parallel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "tephra/base/read_ahead.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

// Restores the number of threads that the tests run with.
class ParallelFor : public ::testing::Test {
 protected:
  ~ParallelFor() override { set_num_threads(before_); }

 private:
  const int before_ = num_threads();
};

TEST_F(ParallelFor, RunsEveryPieceOnceCutAtMultiplesOfTheGrain) {
  for (const int threads : {1, 2, 3, 8, 16}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    for (const int64_t n : {0, 1, 2, 7, 64, 1000, 1001}) {
      for (const int64_t grain : {1, 3, 16, 1000, 5000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
        std::atomic<int64_t> calls{0};
        parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          ++calls;
          EXPECT_EQ(begin % grain, 0);
          EXPECT_EQ(end, std::min(n, begin + grain));
          for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
        });
        EXPECT_EQ(calls, ceil_div(n, grain));
        for (const auto& hit : hits) ASSERT_EQ(hit, 1) << threads << " " << n << " " << grain;
      }
    }
  }
}

TEST_F(ParallelFor, TakesOverWhatASlowThreadHasNotBegun) {
  set_num_threads(2);
  for (const int64_t slow : {0, 7}) {  // the first piece of one share, the last of the other
    std::atomic<int> others{0};
    parallel_for(8, 1, [&](int64_t i, int64_t) {
      if (i != slow) {
        ++others;
        return;
      }
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (others < 7 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      EXPECT_EQ(others, 7) << "nobody helped";
    });
  }
}

TEST_F(ParallelFor, RunsSeriallyInsideABody) {
  set_num_threads(4);
  std::vector<std::atomic<int>> hits(40 * 50);
  parallel_for(40, 1, [&](int64_t outer, int64_t) {
    const auto thread = std::this_thread::get_id();
    EXPECT_EQ(num_threads(), 4);
    parallel_for(50, 7, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(outer * 50 + i)];
    });
  });
  for (const auto& hit : hits) ASSERT_EQ(hit, 1);
}

TEST_F(ParallelFor, RethrowsAndStaysUsable) {
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> calls{0};
      const Error error = error_of([&] {
        parallel_for(100, 1, [&](int64_t i, int64_t) {
          ++calls;
          if (i == 37) throw Error(Fault::data, "piece 37");
        });
      });
      EXPECT_STREQ(error.what(), "piece 37");
      EXPECT_EQ(calls, 100);  // the others are finished, not abandoned
    }
  }
}

TEST_F(ParallelFor, TakesCallersFromSeveralThreads) {
  set_num_threads(3);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        std::vector<int64_t> sums(10);
        parallel_for(10, 1, [&](int64_t i, int64_t) { sums[static_cast<size_t>(i)] = i; });
        total += std::accumulate(sums.begin(), sums.end(), int64_t{0});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 100 * 45);
}

// A worker that has just woken may meet its pool's end.
TEST_F(ParallelFor, ThePoolCanChangeAtAnyTime) {
  std::atomic<int64_t> total = 0;
  constexpr int kRounds = 500;
  for (int round = 0; round < kRounds; ++round) {
    set_num_threads(2 + round % 3);
    parallel_for(10, 1, [&](int64_t i, int64_t) { total += i; });
  }
  EXPECT_EQ(total, kRounds * 45);
}

// Idle workers ask for what was announced, but never read it.
TEST_F(ParallelFor, AnnouncedMemoryMayBeGoneOrTooMuch) {
  constexpr size_t kBytes = 1 << 20;
  void* gone = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  munmap(gone, kBytes);
  const std::vector<std::span<const std::byte>> ranges(
      kMostAhead + 3, {static_cast<const std::byte*>(gone), kBytes});
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    std::atomic<int64_t> total = 0;
    for (int round = 0; round < 100; ++round) {
      const auto some = std::span(ranges).first(static_cast<size_t>(round) % (ranges.size() + 1));
      read_ahead(some.first(some.size() / 2), some);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      parallel_for(10, 1, [&](int64_t i, int64_t) { total += i; });
    }
    EXPECT_EQ(total, 100 * 45);
  }
}

TEST_F(ParallelFor, RefusesAnImpossibleNumberOfThreads) {
  EXPECT_STREQ(error_of([] { set_num_threads(0); }).what(),
               "threads must be between 1 and 1024, got 0");
  EXPECT_EQ(error_of([] { set_num_threads(2000); }).fault(), Fault::usage);
  set_num_threads(2);
  EXPECT_EQ(error_of([] { parallel_for(2, 1, [](auto, auto) { set_num_threads(3); }); }).fault(),
            Fault::internal);
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/relay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tephra/base/parallel.h"

namespace tephra {
namespace {

class Threads {
 public:
  explicit Threads(int count) : before_(num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }

 private:
  int before_;
};

// Twice the numbers below 100 by the first line, of which the second one takes sums of two.
TEST(Relay, TakesInOrderWhatThreadsDoInAnyOrder) {
  for (const int threads : {1, 2, 7}) {
    const Threads set(threads);
    std::vector<int> doubled, sums;
    int next = 0;
    Relay relay(2, [&] {
      for (const int end = std::min(100, next + 9); next < end; ++next) {
        const auto value = std::make_shared<int>();
        relay.add(0, {[=, i = next] {
                        std::this_thread::sleep_for(std::chrono::microseconds(i * 37 % 200));
                        *value = 2 * i;
                      },
                      [=, &relay, &doubled, &sums] {
                        doubled.push_back(*value);
                        if (doubled.size() % 2 == 1) return;
                        const int sum = doubled[doubled.size() - 2] + doubled.back();
                        relay.add(1, {{}, [&sums, sum] { sums.push_back(sum); }});
                      }});
      }
      return next < 100;
    });
    relay.run(static_cast<size_t>(threads), 4);
    ASSERT_EQ(doubled.size(), 100u);
    ASSERT_EQ(sums.size(), 50u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(doubled[static_cast<size_t>(i)], 2 * i);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(sums[static_cast<size_t>(i)], 8 * i + 2);
  }
}

// One that waited at the end of what was read first would wait for ever.
TEST(Relay, WorksOnWhatIsReadNextBesideWhatIsNotDone) {
  const Threads set(2);
  std::atomic<bool> later = false;
  int reads = 0;
  Relay relay(1, [&] {
    if (reads++ == 0) {
      relay.add(0, {[&] {
                      while (!later) std::this_thread::yield();
                    },
                    [] {}});
    } else {
      relay.add(0, {[&] { later = true; }, [] {}});
    }
    return reads < 2;
  });
  relay.run(2, 1);
  EXPECT_TRUE(later);
}

TEST(Relay, DoesNotReadOnWithoutEndWhileOneTakes) {
  const Threads set(2);
  constexpr size_t kAhead = 3;
  std::atomic<size_t> reads = 0, read_meanwhile = 0;
  Relay relay(1, [&] {
    relay.add(0, {[] {},
                  [&, first = reads == 0] {
                    if (!first) return;
                    std::this_thread::sleep_for(std::chrono::milliseconds(50));
                    read_meanwhile = reads.load();
                  }});
    return ++reads < 1000;
  });
  relay.run(2, kAhead);
  EXPECT_EQ(reads, 1000u);
  EXPECT_LE(read_meanwhile, Relay::most_tasks(kAhead));
}

TEST(Relay, RethrowsWhatATaskThrowsAndEnds) {
  for (const int threads : {1, 3}) {
    const Threads set(threads);
    for (const int place : {0, 1, 2}) {
      int taken = 0, reads = 0;
      const auto fail = [] { throw std::runtime_error("it failed"); };
      Relay relay(1, [&] {
        if (place == 0 && reads == 3) fail();
        relay.add(0, {[&, at = reads] {
                        if (place == 1 && at == 3) fail();
                      },
                      [&, at = reads] {
                        if (place == 2 && at == 3) fail();
                        ++taken;
                      }});
        return ++reads < 1000;
      });
      EXPECT_THROW(relay.run(static_cast<size_t>(threads), 0), std::runtime_error);
      EXPECT_LE(taken, 3);
    }
  }
}

}  // namespace
}  // namespace tephra

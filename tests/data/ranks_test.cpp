// SPDX-License-Identifier: Apache-2.0
// Ranks that meet in a folder: who they are, waiting, and those that fail, are killed or never
// come. Each rank is a thread here.
#include "tephra/data/corpus/ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

using std::chrono::milliseconds;

constexpr RankTimes kQuick{.beat = milliseconds(20),
                           .look = milliseconds(10),
                           .say = milliseconds(50),
                           .gone = milliseconds(10000),
                           .missing = milliseconds(10000)};

Shard rank_of(int64_t index, int64_t count) { return {index, count, true}; }

// Sets variables for as long as it lives.
class WithEnvironment {
 public:
  explicit WithEnvironment(std::vector<std::pair<const char*, const char*>> values)
      : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name, value, 1);
  }
  ~WithEnvironment() {
    for (const auto& [name, value] : values_) ::unsetenv(name);
  }
  WithEnvironment(const WithEnvironment&) = delete;
  WithEnvironment& operator=(const WithEnvironment&) = delete;

 private:
  std::vector<std::pair<const char*, const char*>> values_;
};

TEST(Ranks, AreThoseOfSrunAndMpirunButNotOfABatchScript) {
  {
    // What sbatch --ntasks=4 sets for the script, which is one process.
    const WithEnvironment batch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
    const Shard shard = parse_shard("auto");
    EXPECT_FALSE(shard.ranks);
    EXPECT_EQ(shard.count, 1);
  }
  const WithEnvironment step({{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_TRUE(parse_shard("auto").ranks);
  EXPECT_EQ(parse_shard("auto").index, 2);
  EXPECT_EQ(parse_shard("auto").count, 4);
  const WithEnvironment mpirun({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(parse_shard("auto").count, 2) << "mpirun within a job of Slurm";
  EXPECT_FALSE(parse_shard("0/1").ranks) << "alone, whatever the environment says";
}

TEST(Ranks, TakeThePlanOfTheFirstAndGoStepByStep) {
  const Scratch scratch;
  std::atomic<int> prepared = 0, came = 0;
  const auto one = [&](int64_t index) {
    Ranks ranks(scratch / "ranks", rank_of(index, 3), "plan of " + std::to_string(index), kQuick);
    EXPECT_EQ(ranks.plan(), "plan of 0");
    for (int step = 1; step <= 3; ++step) {
      if (index == 0) prepared = step;
      ranks.follow("what the first does");
      EXPECT_GE(prepared, step);
      ++came;
      ranks.gather("all others");
      EXPECT_TRUE(index > 0 || came >= 3 * step);
    }
  };
  std::vector<std::future<void>> all;
  for (const int64_t index : {2, 1, 0}) {
    all.push_back(std::async(std::launch::async, one, index));
  }
  for (std::future<void>& each : all) each.get();
  EXPECT_FALSE(std::filesystem::exists(scratch / "ranks"));
}

TEST(Ranks, SayWhyTheirFileCannotBeWritten) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "ranks/rank-1");
  const Error error =
      error_of([&] { const Ranks ranks(scratch / "ranks", rank_of(1, 2), "", kQuick); });
  EXPECT_NE(std::string(error.what()).find("cannot be written: Is a directory"), std::string::npos)
      << error.what();
}

TEST(Ranks, EndWithAnErrorWhenOneFails) {
  const Scratch scratch;
  auto waits = std::async(std::launch::async, [&] {
    return error_of([&] {
      Ranks ranks(scratch / "ranks", rank_of(0, 2), "", kQuick);
      ranks.wait_for(1, "web/a", [] { return false; });
    });
  });
  const Error own = error_of([&] {
    const Ranks ranks(scratch / "ranks", rank_of(1, 2), "", kQuick);
    throw Error(Fault::data, "a damaged file");
  });
  EXPECT_STREQ(own.what(), "a damaged file");
  const Error error = waits.get();
  EXPECT_EQ(error.fault(), Fault::peer);
  EXPECT_STREQ(error.what(), "rank 1 of 2 ended with an error; it was waited for: web/a");
  // The same once more, and well: what is left of the failure says nothing to the new processes.
  auto second = std::async(std::launch::async, [&] {
    Ranks ranks(scratch / "ranks", rank_of(1, 2), "", kQuick);
    ranks.gather("the end");
  });
  {
    Ranks ranks(scratch / "ranks", rank_of(0, 2), "", kQuick);
    ranks.gather("the end");
  }
  second.get();
}

TEST(Ranks, NoticeOneThatWasKilled) {
  const Scratch scratch;
  std::promise<void> met;
  auto other = std::async(std::launch::async, [&] {
    RankTimes still = kQuick;
    still.beat = std::chrono::hours(1);
    Ranks ranks(scratch / "ranks", rank_of(1, 2), "", still);
    met.get_future().wait();
  });
  {
    std::vector<std::string> said;
    const LogCapture capture([&](LogLevel, std::string_view line) { said.emplace_back(line); });
    RankTimes times = kQuick;
    times.gone = milliseconds(300);
    Ranks ranks(scratch / "ranks", rank_of(0, 2), "", times);
    const Error error = error_of([&] { ranks.gather("the end of filter"); });
    EXPECT_EQ(error.fault(), Fault::peer);
    EXPECT_NE(std::string(error.what()).find("rank 1 of 2 has shown no sign of life"),
              std::string::npos)
        << error.what();
    ASSERT_FALSE(said.empty());
    EXPECT_NE(said[0].find("rank 0 of 2 waits for rank 1: the end of filter"), std::string::npos)
        << said[0];
  }
  met.set_value();
  other.get();
}

TEST(Ranks, SayWhoHasNotComeAndGiveUp) {
  const Scratch scratch;
  std::vector<std::string> said;
  const LogCapture capture([&](LogLevel, std::string_view line) { said.emplace_back(line); });
  RankTimes times = kQuick;
  times.missing = milliseconds(300);
  const Error error =
      error_of([&] { const Ranks ranks(scratch / "ranks", rank_of(0, 4), "", times); });
  EXPECT_EQ(error.fault(), Fault::peer);
  EXPECT_STREQ(error.what(), "rank 1 of 4 has not come");
  EXPECT_NE(error.hint().find("--shard 0/1"), std::string::npos);
  ASSERT_FALSE(said.empty());
  EXPECT_NE(said[0].find("rank 0 of 4 waits for rank 1, which has not begun"), std::string::npos)
      << said[0];
}

}  // namespace
}  // namespace tephra

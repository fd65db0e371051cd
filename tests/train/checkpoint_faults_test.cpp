// SPDX-License-Identifier: Apache-2.0
// Disks that fill up, folders that cannot be written, processes that are killed: nothing of it
// costs a checkpoint that was there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tephra/base/host_name.h"
#include "tephra/base/log.h"
#include "tests/support/error_of.h"
#include "tests/support/file_limit.h"
#include "tests/support/scratch.h"
#include "tests/train/checkpoint_fixture.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<int64_t>;

struct Quiet {
  std::string text;
  LogCapture capture{[this](LogLevel, std::string_view line) { text += std::string(line) + "\n"; }};
};

int64_t names_in(const Path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(CheckpointFaults, AFailedWriteLeavesNothingAndTheNextSaveSucceeds) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {.keep = {.last_n = 1}});
  Quiet log;
  save_and_wait(writer, 1);
  {
    const FileLimit limit(3000);
    writer.save(2, tensors_at(2, 100), state_at(2));
    const Error error = error_of([&] { writer.wait(); });
    EXPECT_EQ(error.fault(), Fault::data);
    EXPECT_NE(std::string(error.what()).find("File too large"), std::string::npos) << error.what();
  }
  EXPECT_NE(log.text.find("the checkpoint of step 2 was not saved: "), std::string::npos);
  EXPECT_EQ(names_in(run / "checkpoints"), 1);
  EXPECT_TRUE(holds_step(*open_newest(run.path()), 1));
  save_and_wait(writer, 3);
  EXPECT_EQ(steps_in(run.path()), Steps{3});
  EXPECT_EQ(writer.stats().failed, 1);
  EXPECT_EQ(writer.stats().saved, 2);
}

TEST(CheckpointFaults, AfterAFailureTheRunGoesOnOrStopsAsItIsTold) {
  for (const OnFailedSave policy : {OnFailedSave::carry_on, OnFailedSave::stop}) {
    const Scratch run;
    const RunLock lock(run.path());
    CheckpointWriter writer(lock, {.on_failure = policy});
    Quiet log;
    {
      const FileLimit limit(100);
      writer.save(1, tensors_at(1), {});
      while (writer.busy()) std::this_thread::yield();
    }
    if (policy == OnFailedSave::carry_on) {
      save_and_wait(writer, 2);
      EXPECT_EQ(steps_in(run.path()), Steps{2});
    } else {
      const Error error = error_of([&] { writer.save(2, tensors_at(2), {}); });
      EXPECT_EQ(exit_code(error.fault()), 3);
      EXPECT_EQ(steps_in(run.path()), Steps{});
    }
  }
}

TEST(CheckpointFaults, AManifestIsWrittenOnlyWhenAllElseIsOnDisk) {
  const Scratch run;
  const RunLock lock(run.path());
  bool fail = false;
  CheckpointWriter writer(lock, {.before_commit = [&] {
                            if (fail) throw Error(Fault::data, "metrics.jsonl: no space");
                          }});
  Quiet log;
  save_and_wait(writer, 1);
  fail = true;
  writer.save(2, tensors_at(2), {});
  EXPECT_STREQ(error_of([&] { writer.wait(); }).what(), "metrics.jsonl: no space");
  EXPECT_EQ(steps_in(run.path()), Steps{1});
  EXPECT_EQ(names_in(run / "checkpoints"), 1);
}

TEST(CheckpointFaults, AFolderThatCannotBeMadeIsSaidAtTheStart) {
  const Scratch run;
  const RunLock lock(run.path());
  write_file(run / "checkpoints", "a file");
  const Error error = error_of([&] { CheckpointWriter(lock, {}); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_EQ(error.what(),
            (run / "checkpoints").string() + ": cannot be made a folder: a file has that name");
}

TEST(CheckpointFaults, AFolderThatVanishesIsMadeAgain) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  fs::remove_all(run / "checkpoints");
  save_and_wait(writer, 1);
  EXPECT_EQ(steps_in(run.path()), Steps{1});
}

TEST(CheckpointFaults, AFullDiskIsSaidBeforeItIsFilled) {
  const Scratch scratch;
  const Path disk = scratch / "disk";
  fs::create_directories(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=3m") != 0) GTEST_SKIP() << "cannot mount";
  {
    const RunLock lock(disk / "run");
    CheckpointWriter writer(lock, {.keep = {.last_n = 1}});
    Quiet log;
    save_and_wait(writer, 1, 10'000);           // 640 kB
    writer.save(2, tensors_at(2, 40'000), {});  // 2.6 MB
    const Error error = error_of([&] { writer.wait(); });
    EXPECT_EQ(error.fault(), Fault::data);
    EXPECT_NE(std::string(error.what()).find("a checkpoint needs 3.4 MiB, the disk has 2."),
              std::string::npos)
        << error.what();
    EXPECT_NE(error.hint(), "");
    write_file(disk / "other", std::string(1'000'000, 'x'));
    writer.save(3, tensors_at(3, 20'000), {});  // fits by the first look, not by the second
    EXPECT_EQ(error_of([&] { writer.wait(); }).fault(), Fault::data);
    EXPECT_EQ(steps_in(disk / "run"), Steps{1});
    fs::remove(disk / "other");
    save_and_wait(writer, 4, 10'000);
    EXPECT_TRUE(holds_step(*open_newest(disk / "run"), 4, 10'000));
  }
  ::umount(disk.c_str());
}

TEST(CheckpointFaults, LeftoversOfTheKilledAreRemovedOthersAreNot) {
  const Scratch run;
  const RunLock lock(run.path());
  for (const char* name : {"step-3.tmp-77", "step-2.gone-77", "step-5", "notes.tmp-1"}) {
    fs::create_directories(run / "checkpoints" / name);
    write_file(run / "checkpoints" / name / "tensors-00001.safetensors", "x");
  }
  Quiet log;
  const CheckpointWriter writer(lock, {});
  EXPECT_FALSE(fs::exists(run / "checkpoints/step-3.tmp-77"));
  EXPECT_FALSE(fs::exists(run / "checkpoints/step-2.gone-77"));
  EXPECT_TRUE(fs::exists(run / "checkpoints/step-5"));
  EXPECT_TRUE(fs::exists(run / "checkpoints/notes.tmp-1"));
}

// What a killed process does, in a process of its own: see the test below.
constexpr const char* kVictimFolder = "TEPHRA_TEST_VICTIM_FOLDER";

TEST(CheckpointVictim, SavesForever) {
  const char* folder = std::getenv(kVictimFolder);
  if (!folder) GTEST_SKIP() << "runs only inside KilledAtAnyMomentTheNewestIsWhole";
  const RunLock lock(folder);
  CheckpointWriter writer(lock, {.keep = {.last_n = 2}, .max_piece_bytes = 4096});
  const auto newest = open_newest(folder);
  for (int64_t step = newest ? newest->step() + 1 : 1;; ++step) {
    writer.save(step, tensors_at(step, 3000), state_at(step));
  }
}

pid_t start_victim(const Path& folder) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setenv(kVictimFolder, folder.c_str(), 1);
  for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) ::unsetenv(name);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  ::execl("/proc/self/exe", "train_test", "--gtest_filter=CheckpointVictim.*", nullptr);
  ::_exit(127);
}

// Until the victim has saved a checkpoint later than `step`; false when it takes too long.
bool saved_after(const Path& run_dir, int64_t step) {
  for (int tries = 0; tries < 30'000; ++tries) {
    const Steps steps = steps_in(run_dir);
    if (!steps.empty() && steps.back() > step) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(CheckpointFaultsSlow, KilledAtAnyMomentTheNewestIsWhole) {
  const Scratch run;
  int64_t newest_step = 0;
  for (int round = 0; round < 25; ++round) {
    const pid_t child = start_victim(run.path());
    ASSERT_GT(child, 0);
    const bool saved = saved_after(run.path(), newest_step);
    std::this_thread::sleep_for(std::chrono::microseconds(round * 7'321 % 40'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(saved) << "the victim did nothing";
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself with " << WEXITSTATUS(status);
    for (const CheckpointInfo& info : list_checkpoints(run.path())) {
      const Checkpoint checkpoint = Checkpoint::open(info.folder);
      ASSERT_EQ(checkpoint.problems(), std::vector<std::string>{}) << info.folder;
      ASSERT_TRUE(holds_step(checkpoint, info.step, 3000));
    }
    const int64_t now = steps_in(run.path()).back();
    ASSERT_GT(now, newest_step) << "a kill never costs what was saved";
    newest_step = now;
  }
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {.keep = {.last_n = 2}});
  Quiet log;
  save_and_wait(writer, newest_step + 1);
  EXPECT_EQ(steps_in(run.path()), (Steps{newest_step, newest_step + 1}));
  EXPECT_EQ(names_in(run / "checkpoints"), 2) << "and nothing else is left";
}

TEST(RunLock, HasOneOwnerWhoIsNamedAndEndsWithIt) {
  const Scratch run;
  {
    const RunLock lock(run / "new/run");
    const Error error = error_of([&] { RunLock second(run / "new/run"); });
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_EQ(error.what(), (run / "new/run").string() + ": the run folder is in use by process " +
                                std::to_string(::getpid()) + " on " + host_name());
  }
  EXPECT_EQ(run_owner(run / "new/run"), std::nullopt);
  const RunLock free(run / "new/run");
  EXPECT_EQ(run_owner(run / "new/run"), format("process {} on {}", ::getpid(), host_name()));
  EXPECT_EQ(run_owner(run / "elsewhere"), std::nullopt);
}

TEST(RunLock, OfAKilledProcessIsFree) {
  const Scratch run;
  const pid_t child = start_victim(run.path());
  while (!fs::exists(run / "lock") || read_file(run / "lock").empty()) std::this_thread::yield();
  const Error error = error_of([&] { RunLock lock(run.path()); });
  EXPECT_NE(std::string(error.what()).find("in use by process " + std::to_string(child) + " on "),
            std::string::npos)
      << error.what();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const RunLock lock(run.path());
}

}  // namespace
}  // namespace tephra

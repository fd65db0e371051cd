// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/turn_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tephra/base/log.h"
#include "tests/retrieve/sample_memory.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

std::vector<Turn> read_all(const Path& path) {
  TurnTable table;
  read_turns(MappedFile::open(path)->bytes(), path.string(), table);
  std::vector<Turn> turns;
  for (int64_t row = 0; row < table.rows(); ++row) turns.push_back(table.turn(row));
  return turns;
}

bool same(const Turn& a, const Turn& b) {
  return a.time == b.time && a.session == b.session && a.speaker == b.speaker && a.text == b.text;
}

void expect_first(const std::vector<Turn>& got, size_t count) {
  const std::vector<Turn> all = sample_turns();
  ASSERT_EQ(got.size(), count);
  for (size_t i = 0; i < count; ++i) EXPECT_TRUE(same(got[i], all[i])) << "row " << i;
}

// One record a turn.
std::string sample_file(const Path& path) {
  TurnTable table;
  TurnWriter writer(path, table);
  for (const Turn& turn : sample_turns()) writer.append({&turn, 1});
  return read_file(path);
}

TEST(TurnFile, GivesBackWhatWasAppended) {
  const Scratch scratch;
  sample_file(scratch / "a.tmem");
  expect_first(read_all(scratch / "a.tmem"), sample_turns().size());
}

TEST(TurnFile, GoesOnWhereItEnded) {
  const Scratch scratch;
  const std::vector<Turn> turns = sample_turns();
  for (const Turn& turn : turns) {
    TurnTable table;
    TurnWriter(scratch / "a.tmem", table).append({&turn, 1});
  }
  expect_first(read_all(scratch / "a.tmem"), turns.size());
}

TEST(TurnFile, CutAnywhereItKeepsEveryWholeRecord) {
  const Scratch scratch;
  const LogCapture quiet([](LogLevel, std::string_view) {});
  const std::string whole = sample_file(scratch / "a.tmem");
  size_t before = 0;
  for (size_t size = 0; size <= whole.size(); ++size) {
    TurnTable table;
    const std::string part = whole.substr(0, size);
    const TurnFileState state = read_turns(std::as_bytes(std::span(part)), "part", table);
    const auto rows = static_cast<size_t>(table.rows());
    ASSERT_GE(rows, before);
    ASSERT_LE(rows, before + 1);
    ASSERT_EQ(state.good_bytes + state.torn_bytes, static_cast<int64_t>(size));
    before = rows;
  }
  EXPECT_EQ(before, sample_turns().size());
  // And a writer goes on after a cut.
  write_file(scratch / "b.tmem", whole.substr(0, whole.size() - 3));
  TurnTable table;
  TurnWriter writer(scratch / "b.tmem", table);
  const Turn last = sample_turns().back();
  writer.append({&last, 1});
  expect_first(read_all(scratch / "b.tmem"), sample_turns().size());
}

TEST(TurnFile, EveryFlippedByteIsFoundAndNamed) {
  const Scratch scratch;
  const std::string whole = sample_file(scratch / "a.tmem");
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bad = whole;
    bad[i] = static_cast<char>(bad[i] ^ 0x20);
    TurnTable table;
    const Error error =
        error_of([&] { read_turns(std::as_bytes(std::span(bad)), "chat.tmem", table); });
    ASSERT_EQ(error.fault(), Fault::data) << "byte " << i;
    ASSERT_EQ(std::string(error.what()).substr(0, 10), "chat.tmem:") << "byte " << i;
  }
}

TEST(TurnFile, SaysWhichRecordIsCorrupted) {
  const Scratch scratch;
  std::string bad = sample_file(scratch / "a.tmem");
  const size_t at = bad.find("violin");
  bad[at] = 'V';
  TurnTable table;
  const Error error =
      error_of([&] { read_turns(std::as_bytes(std::span(bad)), "chat.tmem", table); });
  EXPECT_EQ(std::string(error.what()),
            "chat.tmem: is corrupted in the record at byte 178 (after 2 turns): the hash of its "
            "turns does not fit");
  EXPECT_EQ(table.rows(), 2);
}

TEST(TurnFile, RefusesOtherFilesAndOtherVersions) {
  TurnTable table;
  const std::string text = "just some text that is no memory";
  EXPECT_EQ(
      std::string(
          error_of([&] { read_turns(std::as_bytes(std::span(text)), "a.txt", table); }).what()),
      "a.txt: is no memory file: expected it to begin with TEPHMEM; `tephra memory add` makes "
      "one");
}

// Says after each append how many turns are stored, until it is killed.
[[noreturn]] void append_until_killed(const Path& path, int pipe) {
  TurnTable table;
  TurnWriter writer(path, table);
  int64_t stored = table.rows();
  for (;;) {
    const Turn turn{1000 + stored, 1, stored % 2 == 0 ? "Ann" : "Ben", format("turn {}", stored)};
    writer.append({&turn, 1});
    ++stored;
    if (::write(pipe, &stored, sizeof stored) != sizeof stored) ::_exit(1);
  }
}

TEST(TurnFile, LosesNothingAcknowledgedWhenKilled) {
  const Scratch scratch;
  const Path path = scratch / "a.tmem";
  int64_t before = 0;
  for (int round = 0; round < 5; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) append_until_killed(path, pipe[1]);
    ::close(pipe[1]);
    int64_t acknowledged = before;
    for (int i = 0; i < 20 + 7 * round; ++i) {
      ASSERT_EQ(::read(pipe[0], &acknowledged, sizeof acknowledged), sizeof acknowledged);
    }
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    int64_t later = 0;
    while (::read(pipe[0], &later, sizeof later) == sizeof later) acknowledged = later;
    ::close(pipe[0]);

    const std::vector<Turn> turns = read_all(path);
    ASSERT_GE(static_cast<int64_t>(turns.size()), acknowledged);
    ASSERT_GT(acknowledged, before);
    for (size_t i = 0; i < turns.size(); ++i) ASSERT_EQ(turns[i].text, format("turn {}", i));
    before = static_cast<int64_t>(turns.size());
  }
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/files.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "tephra/base/new_folder.h"
#include "tephra/base/temporary_name.h"
#include "tests/support/error_of.h"
#include "tests/support/file_limit.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

using Names = std::vector<std::string>;

TEST(Files, ReadWhatWasWritten) {
  const Scratch folder;
  std::string text(100000, 'x');
  text[5] = '\0';
  write_file(folder / "a", text);
  EXPECT_EQ(read_file(folder / "a"), text);
  EXPECT_EQ(read_file(folder / "a", 100000), text);
  write_file(folder / "a", "");
  EXPECT_EQ(read_file(folder / "a"), "");
  EXPECT_EQ(folder.names(), Names{"a"});
  EXPECT_FALSE(read_file("/proc/self/status").empty());  // its size is given as 0
}

TEST(Files, ErrorsNameThePath) {
  const Scratch folder;
  const std::string missing = (folder / "missing").string(), here = folder.path().string();
  const auto expect = [](FunctionRef<void()> call, Fault fault, const std::string& what) {
    const Error error = error_of(call);
    EXPECT_EQ(error.fault(), fault);
    EXPECT_EQ(error.what(), what);
  };
  expect([&] { read_file(missing); }, Fault::usage, missing + ": does not exist");
  expect([&] { MappedFile::open(missing); }, Fault::usage, missing + ": does not exist");
  expect([&] { read_file(here); }, Fault::usage, here + ": is a folder, expected a file");
  expect([&] { MappedFile::open(here); }, Fault::usage, here + ": is a folder, expected a file");
  write_file(folder / "a", "12345");
  expect([&] { read_file(folder / "a", 4); }, Fault::data,
         (folder / "a").string() + ": expected a file of at most 4 bytes, got more");
  expect([&] { write_file(folder / "no/b", "x"); }, Fault::usage,
         (folder / "no/b").string() + ": cannot be written: the folder '" +
             (folder / "no").string() + "' does not exist");
  expect([&] { write_file(here, "x"); }, Fault::usage,
         here + ": is a folder, expected the name of a file to write");
  expect([&] { require_folder(missing, "a model folder"); }, Fault::usage,
         missing + ": does not exist; expected a model folder");
  expect([&] { require_folder(folder / "a", "a model folder"); }, Fault::usage,
         (folder / "a").string() + ": is not a folder; expected a model folder");
  expect([&] { make_writable_folder(folder / "a"); }, Fault::usage,
         (folder / "a").string() + ": cannot be made a folder: a file has that name");
  expect([&] { make_writable_folder(folder / "a/b"); }, Fault::usage,
         (folder / "a/b").string() + ": cannot be made a folder: Not a directory");
}

TEST(TemporaryName, IsKnownAgainForItsFileAlone) {
  const std::string name = temporary_name("tree.json", 3);
  EXPECT_TRUE(is_temporary_name(name, "tree.json"));
  EXPECT_TRUE(is_temporary_name(".tree.json.77-0.tmp", "tree.json"));
  for (const char* other :
       {"tree.json", ".tree.json.tmp", ".tree.json.7-1.tmp.tmp", ".tree.json.old.7-1.tmp",
        "tree.json.7-1.tmp", ".tree.jsonl.7-1.tmp", ".tree.json.7-1"}) {
    EXPECT_FALSE(is_temporary_name(other, "tree.json")) << other;
  }
}

TEST(Files, MakeFoldersWithTheirParents) {
  const Scratch folder;
  make_writable_folder(folder / "a/b/c");
  make_writable_folder(folder / "a/b/c");
  require_folder(folder / "a/b/c", "a folder");
}

TEST(NewFolder, IsAsBeforeUnlessItIsKept) {
  const Scratch scratch;
  const auto fill = [&](const Path& path, bool keep) {
    NewFolder folder(path);
    folder.write("a", "1");
    if (keep) folder.keep();
    return folder.was_empty();
  };
  EXPECT_TRUE(fill(scratch / "x/y/z", false));
  EXPECT_EQ(scratch.names(), Names{});
  make_writable_folder(scratch / "x");
  EXPECT_TRUE(fill(scratch / "x", false));
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "x"));  // it was there before
  EXPECT_TRUE(fill(scratch / "x/y/", true));
  EXPECT_FALSE(fill(scratch / "x/y", false));
  EXPECT_EQ(read_file(scratch / "x/y/a"), "1");  // what was there before stays
  {
    NewFolder folder(scratch / "z");
    folder.write("a", "1");
    write_file(scratch / "z/b", "2");  // by somebody else
  }
  EXPECT_EQ(read_file(scratch / "z/b"), "2");
  EXPECT_FALSE(std::filesystem::exists(scratch / "z/a"));
}

TEST(NewFolder, ThatCannotBeMadeLeavesNoParents) {
  const Scratch scratch;
  const Path path = scratch / "x" / std::string(300, 'n');  // no system has names so long
  EXPECT_EQ(error_of([&] { NewFolder folder(path); }).fault(), Fault::usage);
  EXPECT_EQ(scratch.names(), Names{});
}

TEST(NewFolder, LeavesALinkThatPointsToNothing) {
  const Scratch scratch;
  const Path link = scratch / "link";
  std::filesystem::create_symlink("not/mounted", link);
  for (const char* under : {"", "/", "/sub"}) {
    const Path path = link.string() + under;
    EXPECT_EQ(std::string(error_of([&] { NewFolder folder(path); }).what()),
              path.string() + ": cannot be made a folder: the link '" + link.string() +
                  "' points to nothing");
    EXPECT_TRUE(std::filesystem::is_symlink(link)) << path;
  }
}

TEST(MappedFile, ShowsTheBytesEvenAfterTheFileIsGone) {
  const Scratch folder;
  write_file(folder / "a", "hello");
  const auto file = MappedFile::open(folder / "a");
  write_file(folder / "a", "other text");  // replaced by rename: the mapping keeps the old bytes
  std::filesystem::remove(folder / "a");
  ASSERT_EQ(file->bytes().size(), 5u);
  EXPECT_EQ(std::memcmp(file->bytes().data(), "hello", 5), 0);
}

TEST(MappedFile, ReadsTheSameBytesIntoMemoryOfTheCaller) {
  const Scratch folder;
  write_file(folder / "a", "0123456789");
  const auto file = MappedFile::open(folder / "a");
  std::filesystem::remove(folder / "a");
  std::array<std::byte, 4> four{};
  file->read(3, four);
  EXPECT_EQ(std::memcmp(four.data(), "3456", 4), 0);
  const Error error = error_of([&] { file->read(8, four); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(),
            (folder / "a").string() + ": is cut short: expected 2 more bytes at byte 10");
}

TEST(MappedFile, OfAnEmptyFileIsEmpty) {
  const Scratch folder;
  write_file(folder / "a", "");
  EXPECT_TRUE(MappedFile::open(folder / "a")->bytes().empty());
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const Scratch folder;
  {
    AtomicFile file(folder / "a");
    file.write("first ");
    file.write("second");
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    file.commit();
    EXPECT_EQ(error_of([&] { file.write("x"); }).fault(), Fault::internal);
  }
  EXPECT_EQ(read_file(folder / "a"), "first second");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const Scratch folder;
  write_file(folder / "old", "old");
  {
    AtomicFile one(folder / "new"), two(folder / "new"), three(folder / "old");
    one.write("text");
    two.write("text");
    three.write("text");
    EXPECT_EQ(folder.names().size(), 4u);
  }
  EXPECT_EQ(folder.names(), Names{"old"});
  EXPECT_EQ(read_file(folder / "old"), "old");
}

TEST(AtomicFile, AFailedWriteSaysSoAndLeavesNothing) {
  const Scratch folder;
  const std::string path = (folder / "a").string();
  const std::string text(1 << 20, 'x');
  const Error error = error_of([&] {
    const FileLimit limit(65536);
    write_file(path, text);
  });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(), path +
                              ": writing 1048576 bytes failed: File too large; free some space "
                              "and run again; nothing was left under the final name");
  EXPECT_EQ(folder.names(), Names{});

  write_file(path, "old");
  const Error second = error_of([&] {
    const FileLimit limit(65536);
    write_file(path, text);
  });
  EXPECT_NE(std::string(second.what()).find("the previous file of that name is unchanged"),
            std::string::npos);
  EXPECT_EQ(read_file(path), "old");
}

TEST(AtomicFile, AFullDiskSaysSoAndLeavesNothing) {
  const Scratch folder;
  const std::string disk = folder.path().string();
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "mounting a small disk needs root";
  }
  const std::shared_ptr<void> unmounted(nullptr, [&](void*) { ::umount(disk.c_str()); });
  const std::string path = (folder / "a").string();
  const Error error = error_of([&] { write_file(path, std::string(1 << 20, 'x')); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(),
            path +
                ": writing 1048576 bytes failed: No space left on device; free some space and "
                "run again; nothing was left under the final name");
  EXPECT_EQ(folder.names(), Names{});
  write_file(path, "fits");
  EXPECT_EQ(read_file(path), "fits");
}

// Forks, runs `child` in the new process, and gives its id.
pid_t in_child(FunctionRef<void()> child) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    child();
    ::_exit(1);
  }
  return pid;
}

TEST(AtomicFile, KilledHalfwayLeavesNoFile) {
  const Scratch folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t pid = in_child([&] {
    AtomicFile file(folder / "a");
    file.write(std::string(1 << 20, 'x'));
    (void)!::write(ready[1], "!", 1);
    ::pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

TEST(AtomicFile, KilledAtAnyMomentIsOldOrNewButWhole) {
  const Scratch folder;
  const std::string a(300000, 'a'), b(200000, 'b');
  write_file(folder / "x", a);
  for (int round = 0; round < 12; ++round) {
    const pid_t pid = in_child([&] {
      for (;;) {
        write_file(folder / "x", b);
        write_file(folder / "x", a);
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(1500 * round));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    const std::string text = read_file(folder / "x");
    ASSERT_TRUE(text == a || text == b) << text.size();
  }
}

TEST(Files, AreReadAtChosenPlaces) {
  const Scratch folder;
  write_file(folder / "a", "0123456789");
  const FileReader file(folder / "a");
  std::string got(4, ' ');
  file.read(3, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, "3456");
  EXPECT_EQ(file.size(), 10);
  const Error error = error_of([&] { file.read(8, std::as_writable_bytes(std::span(got))); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(),
            (folder / "a").string() + ": is cut short: expected 2 more bytes at byte 10");
}

}  // namespace
}  // namespace tephra

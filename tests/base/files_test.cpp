// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <thread>

#include "tephra/base/large_pages.h"
#include "tephra/base/new_folder.h"
#include "tephra/base/temporary_name.h"
#include "tests/support/error_of.h"
#include "tests/support/file_limit.h"
#include "tests/support/scratch.h"
#include "tests/support/small_pieces.h"

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

TEST(NewFolder, IsRidOfWhatKilledProcessesLeftOfAModel) {
  const Scratch scratch;
  constexpr const char* kNoProcess = "999999999";  // above all numbers that Linux gives
  const std::string mine = std::to_string(::getpid());
  const auto leave = [&](const std::string& file, const std::string& process) {
    write_file(scratch / format(".{}.{}-0.tmp", file, process), "");
  };
  leave("model.safetensors", kNoProcess);
  leave(format(".model-00001-of-00002.safetensors.{}-0.tmp", kNoProcess), kNoProcess);
  EXPECT_TRUE(NewFolder(scratch.path()).was_empty());
  EXPECT_EQ(scratch.names(), Names{});
  leave("model.safetensors", mine);  // still written
  leave("notes.txt", kNoProcess);    // nothing of ours
  leave("a.safetensors", "12x");
  leave("a.safetensors", "");
  write_file(scratch / "model.safetensors.999999999-0.tmp", "");
  const Names before = scratch.names();
  EXPECT_FALSE(NewFolder(scratch.path()).was_empty());
  EXPECT_EQ(scratch.names(), before);
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

// Some MiB and an odd end.
std::string write_some_blocks(const Path& path) {
  std::string text(static_cast<size_t>(4 * kLargePage) + 777, 'x');
  for (size_t i = 0; i < text.size(); i += 97) text[i] = static_cast<char>(i % 251);
  write_in_small_pieces(path, text);
  return text;
}

// Files in memory are not copied: these lie where the test runs, in the build's folder.
Path on_disk() { return std::filesystem::current_path(); }

constexpr auto kIgnore = [](int64_t) {};

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, BeginsWhereALargePageCan) {
  const Scratch folder;
  for (const size_t size : {1, 4096, 5000, 2 << 20, (4 << 20) + 1}) {
    const std::string text(size, 'x');
    write_file(folder / "a", text);
    const auto file = MappedFile::open(folder / "a");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file->bytes().data()) % kLargePage, 0u) << size;
    EXPECT_EQ(text_of(*file), text);
  }
}

TEST(MappedFile, HasTheSameBytesWhenBlocksWereCopied) {
  const Scratch folder(on_disk());
  const std::string text = write_some_blocks(folder / "a");
  int64_t told = 0;
  {
    const auto file = MappedFile::open(folder / "a");
    file->prefer_large_pages();
    EXPECT_TRUE(file->copy_blocks({}, kIgnore));
    EXPECT_EQ(copied_file_bytes(), 0);
    EXPECT_TRUE(file->copy_blocks({0, 2, 3}, [&](int64_t bytes) { told += bytes; }));
    EXPECT_EQ(told, 3 * kLargePage);
    EXPECT_EQ(copied_file_bytes(), told);
    EXPECT_EQ(text_of(*file), text);
    file->release(file->bytes());
    EXPECT_EQ(text_of(*file), text);
  }
  EXPECT_EQ(copied_file_bytes(), 0);
}

// What the mapping holds after all of it was let go of.
int64_t held_after_release(const MappedFile& file) {
  file.release(file.bytes());
  return page_sizes(file.bytes())->mapped;
}

TEST(MappedFile, LetsGoOfAllButItsCopies) {
  const Scratch folder(on_disk());
  const std::string text = write_some_blocks(folder / "a");
  const auto file = MappedFile::open(folder / "a");
  EXPECT_EQ(text_of(*file), text);
  if (!page_sizes(file->bytes())) GTEST_SKIP() << "the system does not tell";
  EXPECT_LT(held_after_release(*file), kLargePage);
  ASSERT_TRUE(file->copy_blocks({1}, kIgnore));
  EXPECT_EQ(text_of(*file), text);
  const int64_t held = held_after_release(*file);
  EXPECT_GE(held, kLargePage);
  EXPECT_LT(held, 2 * kLargePage);
}

TEST(MappedFile, KeepsWhatWasCopiedOfAFileThatIsCutShort) {
  const Scratch folder(on_disk());
  const std::string text = write_some_blocks(folder / "a");
  const auto file = MappedFile::open(folder / "a");
  ASSERT_TRUE(file->copy_blocks({0, 1, 2}, kIgnore));
  std::filesystem::resize_file(folder / "a", 0);
  EXPECT_EQ(text_of(*file).substr(0, 3 * kLargePage), text.substr(0, 3 * kLargePage));
}

// A sandbox may refuse the call, and file systems that lie above others know of nothing.
bool cache_is_told(const Path& path) {
  constexpr long kCacheStat = 451;
  const uint64_t range[2] = {0, 4096};
  uint64_t answer[5];
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool told = ::syscall(kCacheStat, fd, range, answer, 0) == 0 && answer[0] > 0;
  ::close(fd);
  return told;
}

TEST(MappedFile, FindsAndCopiesWhatLiesInSmallPages) {
  const Scratch folder(on_disk());
  const std::string text = write_some_blocks(folder / "a");
  const auto file = MappedFile::open(folder / "a");
  EXPECT_EQ(text_of(*file), text);  // touched
  const auto pages = page_sizes(file->bytes());
  if (!pages) GTEST_SKIP() << "the system does not tell";
  if (pages->large > 0) GTEST_SKIP() << "the file system keeps the file in large pages";
  struct statfs system {};
  ASSERT_EQ(::statfs(folder.path().c_str(), &system), 0);
  if (system.f_type == TMPFS_MAGIC) GTEST_SKIP() << "the build's folder lies in memory";
  if (!cache_is_told(folder / "a")) GTEST_SKIP() << "the system does not tell what is cached";
  const std::vector<int64_t> blocks = file->small_blocks();
  EXPECT_EQ(blocks, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(file->copy_blocks(blocks, kIgnore));
  EXPECT_EQ(text_of(*file), text);
  EXPECT_TRUE(file->small_blocks().empty()) << "nothing is copied twice";
  if (large_pages_come() == true) {
    EXPECT_GT(page_sizes(file->bytes())->large, 0);
  }
}

TEST(MappedFile, OfADiskInMemoryIsNotCopied) {
  struct statfs system {};
  if (::statfs("/dev/shm", &system) != 0 || system.f_type != TMPFS_MAGIC ||
      ::access("/dev/shm", W_OK) != 0) {
    GTEST_SKIP() << "no disk in memory";
  }
  const Scratch folder("/dev/shm");
  write_some_blocks(folder / "a");
  EXPECT_TRUE(MappedFile::open(folder / "a")->small_blocks().empty());
}

// No more than so many bytes of data beside what there is, while it lives.
class DataLimit {
 public:
  explicit DataLimit(int64_t more) {
    ::getrlimit(RLIMIT_DATA, &before_);
    const std::string status = read_file("/proc/self/status");
    const int64_t now = std::stoll(status.substr(status.find("VmData:") + 7)) * 1024;
    const rlimit limit = {static_cast<rlim_t>(now + more), before_.rlim_max};
    holds_ = ::setrlimit(RLIMIT_DATA, &limit) == 0 && !is_there(2 * more);
  }
  ~DataLimit() { ::setrlimit(RLIMIT_DATA, &before_); }
  DataLimit(const DataLimit&) = delete;
  DataLimit& operator=(const DataLimit&) = delete;

  bool holds() const { return holds_; }  // a system may be told to ignore it

 private:
  static bool is_there(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data != MAP_FAILED) ::munmap(data, size);
    return data != MAP_FAILED;
  }

  rlimit before_{};
  bool holds_ = false;
};

TEST(MappedFile, StaysWholeWhereMemoryForACopyIsNotThere) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need memory of their own";
#endif
  const Scratch folder(on_disk());
  const std::string text = write_some_blocks(folder / "a");
  const auto file = MappedFile::open(folder / "a");
  ASSERT_TRUE(file->copy_blocks({}, kIgnore));
  int64_t told = 0;
  {
    const DataLimit limit(kLargePage * 5 / 2);  // one block and as much to align it, not two
    if (!limit.holds()) GTEST_SKIP() << "the system does not keep the limit";
    EXPECT_FALSE(file->copy_blocks({0, 2, 3}, [&](int64_t bytes) { told += bytes; }));
  }
  EXPECT_EQ(told, kLargePage) << "what was copied is kept";
  EXPECT_EQ(text_of(*file), text);
  EXPECT_TRUE(file->copy_blocks({2, 3}, kIgnore)) << "with more memory it goes on";
  EXPECT_EQ(text_of(*file), text);
}

// Takes all mappings that the system lets this process have, and gives them back one by one.
class NoMappings {
 public:
  NoMappings() {
    data_ = ::mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) return;
    while (2 * taken_ + 3 < kPages && protect(taken_, PROT_READ)) ++taken_;
  }
  ~NoMappings() {
    if (data_ != MAP_FAILED) ::munmap(data_, kSize);
  }
  NoMappings(const NoMappings&) = delete;
  NoMappings& operator=(const NoMappings&) = delete;

  bool full() const { return taken_ > 0 && 2 * taken_ + 3 < kPages; }
  void give_one() { protect(--taken_, PROT_NONE); }

 private:
  // Every other page, so that each has a mapping of its own.
  bool protect(size_t i, int protection) {
    return ::mprotect(static_cast<std::byte*>(data_) + (2 * i + 1) * 4096, 4096, protection) == 0;
  }

  static constexpr size_t kPages = 200'000, kSize = kPages * 4096;
  void* data_ = nullptr;
  size_t taken_ = 0;
};

TEST(MappedFile, StaysWholeWhereMappingsRunOut) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need mappings of their own";
#endif
  if (::sysconf(_SC_PAGESIZE) != 4096) GTEST_SKIP() << "counts pages of 4 KiB";
  const Scratch folder(on_disk());
  const std::string text = write_some_blocks(folder / "a");
  std::vector<std::shared_ptr<MappedFile>> files;
  for (int i = 0; i < 12; ++i) files.push_back(MappedFile::open(folder / "a"));
  ASSERT_TRUE(files[0]->copy_blocks({1}, kIgnore));  // threads are there
  bool some = false, none = false;
  {
    NoMappings no_more;
    if (!no_more.full()) GTEST_SKIP() << "the system has no such limit";
    for (const auto& file : files) {  // it fails at another step each time
      (file->copy_blocks({2}, kIgnore) ? some : none) = true;
      no_more.give_one();
    }
  }
  EXPECT_TRUE(some && none);
  for (const auto& file : files) EXPECT_TRUE(text_of(*file) == text);
}

TEST(LargePages, AreCountedAmongThoseThatWereTouched) {
  const std::vector<std::byte> bytes(5 * kLargePage, std::byte{1});
  const auto sizes = page_sizes(bytes);
  if (!sizes) GTEST_SKIP() << "the system does not tell";
  EXPECT_GE(sizes->mapped, std::ssize(bytes));
  EXPECT_LE(sizes->mapped, std::ssize(bytes) + 2 * 65536);  // the pages at the ends
  EXPECT_LE(sizes->large, sizes->mapped);
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

// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/format.h"
#include "tephra/base/host_name.h"
#include "tests/support/error_of.h"
#include "tests/support/file_limit.h"
#include "tests/support/temporary_place.h"

namespace tephra {
namespace {

const std::string kPrefix = ".tephra-temporary-test-";
constexpr int64_t kNoProcess = 999'999'999;  // above all numbers that Linux gives

void leave(const Path& folder, const std::string& owner = {}) {
  std::filesystem::create_directories(folder / "model");
  write_file(folder / "model/config.json", "{}");
  if (!owner.empty()) write_file(folder / kTemporaryOwner, owner);
}

std::string owner(int64_t process, const std::string& host) {
  return format("process {} on {}\n", process, host);
}

[[noreturn]] void make_and_end() noexcept {
  const TemporaryFolder folder("test");
  leave(folder.path());
  ::_exit(0);
}

void leave_as_a_killed_process() {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) make_and_end();
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
}

TEST(TemporaryFolders, GoWithAllThatIsInThem) {
  const TemporaryPlace place;
  {
    const TemporaryFolder one("test"), other("test");
    EXPECT_NE(one.path(), other.path());
    EXPECT_EQ(one.path().parent_path(), place.path());
    write_file(one.path() / "a", "b");
  }
  EXPECT_EQ(place.names(), std::vector<std::string>{});
}

TEST(TemporaryFolders, RemoveWhatKilledProcessesLeft) {
  const TemporaryPlace place;
  leave_as_a_killed_process();
  ASSERT_EQ(place.names().size(), 1u);
  EXPECT_TRUE(place.names()[0].starts_with(kPrefix)) << place.names()[0];
  leave(place / (kPrefix + "abcdef"), owner(kNoProcess, host_name()));
  std::filesystem::create_directory(place / (kPrefix + "empty0"));  // killed before it had an owner
  { const TemporaryFolder next("test"); }
  EXPECT_EQ(place.names(), std::vector<std::string>{});
}

TEST(TemporaryFolders, RemoveNothingElse) {
  const TemporaryPlace place;
  const std::string dead = owner(kNoProcess, host_name());
  const TemporaryFolder used("test");
  write_file(used.path() / "a", "b");
  leave(place / "tephra-test-output");  // a person's
  leave(place / "tephra-test-run001", dead);
  leave(place / (kPrefix + "nobody"));  // no owner, or not yet
  leave(place / (kPrefix + "remote"), owner(kNoProcess, "not-" + host_name()));
  leave(place / (kPrefix + "longer"), owner(kNoProcess, host_name() + "-2"));
  leave(place / (kPrefix + "living"), owner(::getppid(), host_name()));
  leave(place / (kPrefix + "halfof"), dead.substr(0, dead.size() - 1));
  leave(place / (kPrefix + "allof0"), owner(0, host_name()));
  leave(place / (kPrefix + "sentence"), dead);  // no name of ours
  leave(place / ".tephra-temporary-other-abcdef", dead);
  leave(place / "precious", dead);
  std::filesystem::create_directory_symlink(place / "precious", place / (kPrefix + "linked"));
  leave(place / (kPrefix + "aowner"));
  std::filesystem::create_symlink(place / "precious" / kTemporaryOwner,
                                  place / (kPrefix + "aowner") / kTemporaryOwner);
  write_file(place / (kPrefix + "afile0"), "a file");
  const std::vector<std::string> before = place.names();
  { const TemporaryFolder next("test"); }
  EXPECT_EQ(place.names(), before);
  EXPECT_TRUE(std::filesystem::exists(used.path() / "a"));
  EXPECT_TRUE(std::filesystem::exists(place / "precious/model/config.json"));
}

TEST(TemporaryFolders, NameThePlaceThatCannotHoldThem) {
  const TemporaryPlace place;
  ::setenv("TMPDIR", (place / "none").c_str(), 1);
  const Error error = error_of([] { TemporaryFolder folder("test"); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_EQ(error.what(), (place / "none").string() +
                              ": cannot hold temporary files: No such file or directory; set "
                              "TMPDIR to another");
}

TEST(TemporaryFolders, LeaveNothingOnAFullDisk) {
  const TemporaryPlace place;
  const FileLimit full(0);
  const Error error = error_of([] { TemporaryFolder folder("test"); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(), place.path().string() +
                              ": cannot hold temporary files: File too large; set TMPDIR to "
                              "another");
  EXPECT_EQ(place.names(), std::vector<std::string>{});
}

}  // namespace
}  // namespace tephra

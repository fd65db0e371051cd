// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/machine.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include "tephra/base/files.h"
#include "tephra/device/memory.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

// A root folder in which a process lies in these control groups.
struct FakeRoot {
  Scratch folder;

  explicit FakeRoot(const std::string& groups) { write("proc/self/cgroup", groups); }
  void write(const Path& name, const std::string& text) const {
    std::filesystem::create_directories((folder / name).parent_path());
    write_file(folder / name, text);
  }
  void group(const Path& name, const std::string& limit, const std::string& use) const {
    const Path at = "sys/fs/cgroup" / name;
    write(at / "memory.max", limit + "\n");
    write(at / "memory.current", use + "\n");
  }
};

TEST(GroupMemory, IsTheLeastOfAllGroupsAbove) {
  const FakeRoot root("0::/a/b\n");
  root.group("a/b", "1000", "100");
  EXPECT_EQ(group_memory(root.folder.path())->limit, 1000);
  EXPECT_EQ(group_memory(root.folder.path())->left, 900);
  root.group("a", "2000", "1700");
  EXPECT_EQ(group_memory(root.folder.path())->limit, 1000);
  EXPECT_EQ(group_memory(root.folder.path())->left, 300);
  root.write("sys/fs/cgroup/a/memory.stat", "anon 1\nactive_file 7\ninactive_file 200\n");
  EXPECT_EQ(group_memory(root.folder.path())->left, 507) << "files can be dropped";
  root.write("sys/fs/cgroup/a/memory.high", "1800\n");
  EXPECT_EQ(group_memory(root.folder.path())->left, 307) << "beyond it a process hardly goes on";
  root.write("sys/fs/cgroup/a/memory.high", "max\n");
  root.group("a", "max", "1700");
  root.group("a/b", "1000", "1200");
  EXPECT_EQ(group_memory(root.folder.path())->left, 0) << "beyond the limit, never less than none";
}

TEST(GroupMemory, OfVersionOneIsThatOfTheMemoryController) {
  const FakeRoot root("5:devices:/x\n4:hugetlb,memory:/a\n0::/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(group_memory(root.folder.path()).has_value());
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n");
  root.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4000\n");
  root.write("sys/fs/cgroup/memory/a/memory.stat",
             "inactive_file 1\ntotal_inactive_file 300\n"
             "total_active_file 200\n");
  EXPECT_EQ(group_memory(root.folder.path())->limit, 5000);
  EXPECT_EQ(group_memory(root.folder.path())->left, 1500);
}

TEST(GroupMemory, OfAContainerThatSeesOnlyItsOwnGroup) {
  const FakeRoot root("0::/elsewhere/container\n");
  root.group("", "800", "300");
  EXPECT_EQ(group_memory(root.folder.path())->left, 500);
}

TEST(GroupMemory, IsNotKnownWithoutGroupsOrWithNonsense) {
  const Scratch nothing;
  EXPECT_FALSE(group_memory(nothing.path()).has_value());
  const FakeRoot root("\n:\nabc\n0::/a\n");
  EXPECT_FALSE(group_memory(root.folder.path()).has_value());
  root.group("a", "max", "1");
  EXPECT_FALSE(group_memory(root.folder.path()).has_value());
}

TEST(LargePages, AreNotThereForAProcessThatMayNotHaveThem) {
  const bool before = has_large_pages();
  const int disabled = ::prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
  ASSERT_GE(disabled, 0);
  ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  EXPECT_FALSE(has_large_pages());
  ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, disabled, 0, 0, 0), 0);
  EXPECT_EQ(has_large_pages(), before);
}

}  // namespace
}  // namespace tephra

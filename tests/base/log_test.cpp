// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/log.h"

#include <gtest/gtest.h>

#include <vector>

#include "tephra/base/progress.h"

namespace tephra {
namespace {

TEST(Log, DropsLinesBelowTheLevelAndFormatsTheOthers) {
  std::vector<std::string> lines;
  const LogCapture capture([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  log_info("{} files", 3);
  set_log_level(LogLevel::warning);
  log_info("dropped");
  log_warning("kept {}", "too");
  set_log_level(LogLevel::info);
  EXPECT_EQ(lines, (std::vector<std::string>{"3 files", "kept too"}));
}

TEST(Log, ProgressOfQuickWorkSaysNothing) {
  std::vector<std::string> lines;
  const LogCapture capture([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  Progress progress("reading", 10, "tensors");
  progress.add(10);
  EXPECT_TRUE(lines.empty());
}

}  // namespace
}  // namespace tephra

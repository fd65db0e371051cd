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

TEST(Log, BytesReadWithThreeDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.00 kB");
  EXPECT_EQ(bytes_text(1536), "1.54 kB");
  EXPECT_EQ(bytes_text(9996), "10.0 kB");
  EXPECT_EQ(bytes_text(999'600), "1.00 MB");
  EXPECT_EQ(bytes_text(17'680'978'928), "17.7 GB");
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

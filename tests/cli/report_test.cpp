// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

TEST(ReportCommand, WritesThePageAndSaysSo) {
  const Scratch run;
  const Program tephra{.path = TEPHRA_BINARY};
  const std::string folder = run.path().string();
  EXPECT_EQ(tephra({"report", folder}).code, 2);
  write_file(run / "metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"lo");
  const Ran ran = tephra({"report", folder});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.find(folder + "/report.html: 1 steps, "), 0u) << ran.out;
  EXPECT_NE(ran.err.find("line 2 is cut short"), std::string::npos) << ran.err;
  EXPECT_EQ(read_file(run / "report.html").find("<!doctype html>"), 0u);
  const std::string out = (run / "other.html").string();
  const Ran json = tephra({"report", folder, "--out", out, "--json"});
  EXPECT_EQ(Json::parse(json.out, "stdout").find("file")->string(), out);
  EXPECT_TRUE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/metrics.h"

#include <gtest/gtest.h>

#include "tephra/base/log.h"
#include "tests/support/error_of.h"
#include "tests/support/file_limit.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

Json row(int64_t step, double seconds = 0.5) {
  Json json;
  json["step"] = step;
  json["loss"] = 1.0 / static_cast<double>(step + 3);
  json["entropy"] = Json::Array{0.5, 0.25};
  json["timing"]["seconds"] = seconds;
  return json;
}

std::string lines(int64_t first, int64_t last) {
  std::string text;
  for (int64_t step = first; step <= last; ++step) text += row(step).dump() + "\n";
  return text;
}

struct Heard {
  std::string text;
  LogCapture capture{[this](LogLevel, std::string_view line) { text += std::string(line) + "\n"; }};
};

void append(MetricsLog& log, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) log.append(row(step));
}

TEST(Metrics, AreOneLineAStepAtOnce) {
  const Scratch run;
  MetricsLog log(run.path(), -1);
  log.append(row(0));
  EXPECT_EQ(read_file(run / "metrics.jsonl"), lines(0, 0));
  append(log, 1, 3);
  EXPECT_EQ(read_file(run / "metrics.jsonl"), lines(0, 3));
  log.flush();
}

TEST(Metrics, OfAResumedRunAreThoseOfAnUninterruptedOne) {
  const Scratch run;
  for (int64_t resumed : {0, 3, 9}) {
    {
      MetricsLog log(run.path(), -1);
      append(log, 0, 9);
    }
    MetricsLog log(run.path(), resumed);
    EXPECT_EQ(read_file(run / "metrics.jsonl"), lines(0, resumed));
    append(log, resumed + 1, 12);
    EXPECT_EQ(read_file(run / "metrics.jsonl"), lines(0, 12)) << resumed;
  }
  const MetricsLog fresh(run.path(), -1);
  EXPECT_EQ(read_file(run / "metrics.jsonl"), "");
}

TEST(Metrics, LoseALineThatACrashCutAndWhatIsNoLine) {
  const Scratch run;
  for (const char* tail : {"{\"step\": 5, \"lo", "\n", "garbage\n", "{\"step\": 5}", "[1]\n{}\n"}) {
    write_file(run / "metrics.jsonl", lines(0, 4) + tail);
    const MetricsLog log(run.path(), 4);
    EXPECT_EQ(read_file(run / "metrics.jsonl"), lines(0, 4)) << tail;
  }
}

TEST(Metrics, SayWhichLinesAreMissing) {
  const Scratch run;
  write_file(run / "metrics.jsonl", lines(0, 4));
  Heard heard;
  const MetricsLog log(run.path(), 7);
  EXPECT_NE(heard.text.find("has no line for the steps 5 to 7"), std::string::npos) << heard.text;
}

TEST(Metrics, OfEverySoManyStepsLackNone) {
  const Scratch run;
  write_file(run / "metrics.jsonl", row(5).dump() + "\n" + row(10).dump() + "\n");
  Heard heard;
  { const MetricsLog log(run.path(), 14, 5); }
  EXPECT_EQ(heard.text, "");
  const MetricsLog log(run.path(), 15, 5);
  EXPECT_NE(heard.text.find("has no line for the steps 11 to 15"), std::string::npos) << heard.text;
}

TEST(Metrics, WaitOutAFullDisk) {
  const Scratch run;
  Heard heard;
  {
    MetricsLog log(run.path(), -1);
    append(log, 0, 1);
    {
      const FileLimit limit(lines(0, 1).size() + 10);
      append(log, 2, 4);
      EXPECT_EQ(error_of([&] { log.flush(); }).fault(), Fault::data);
    }
    append(log, 5, 5);
    log.flush();
  }
  EXPECT_EQ(read_file(run / "metrics.jsonl"), lines(0, 5));
  EXPECT_NE(heard.text.find("cannot be written: File too large; what is missing is kept"),
            std::string::npos);
  EXPECT_EQ(heard.text.find("cannot be written"), heard.text.rfind("cannot be written")) << "once";
  EXPECT_NE(heard.text.find("can be written again, nothing was lost"), std::string::npos);
}

}  // namespace
}  // namespace tephra

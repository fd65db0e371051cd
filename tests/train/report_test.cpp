// SPDX-License-Identifier: Apache-2.0
// The page's content; how it looks is checked by eye, in a browser.
#include "tephra/train/report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tephra/train/run_lock.h"
#include "tephra/train/run_metrics.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

Json metrics_row(int64_t step) {
  Json row;
  row["step"] = step;
  row["tokens"] = step * 1000;
  row["loss"] = 1 + std::exp(-static_cast<double>(step) / 100) + (step == 57 ? 40 : 0);
  row["lr"] = 1e-3;
  row["grad_norm"] = 0.5;
  row["skipped"] = step == 57;
  row["phase"] = step <= 50 ? "warm <up>" : "main";
  row["entropy"] = Json::Array{2.0, 1.5, 1.0};
  row["my_own_number"] = step % 7;
  if (step % 10 == 0) {
    row["val_loss"] = 1.5;
    row["load"] = Json::Array{Json::Array{3, 1}, Json::Array{1, 1}, Json::Array{0, 4}};
    row["eval"]["sort"]["1"] = 0.75;
    row["eval"]["sort"]["10"] = 0.25;
  }
  row["timing"]["seconds"] = 0.5;
  row["timing"]["tokens_per_second"] = 2000.0;
  return row;
}

std::string metrics_text(int64_t steps) {
  std::string text;
  for (int64_t step = 1; step <= steps; ++step) text += metrics_row(step).dump() + "\n";
  return text;
}

Json data_of(const std::string& html) {
  const std::string begin = "id=\"data\">";
  const size_t at = html.find(begin) + begin.size();
  return Json::parse(html.substr(at, html.find("</script>", at) - at), "data");
}

// The chart of this title.
Json chart_of(const Json& data, const std::string& title) {
  for (const Json& group : data.find("groups")->array()) {
    for (const char* kind : {"charts", "heats"}) {
      for (const Json& chart : group.find(kind)->array()) {
        if (chart.find("title")->string() == title) return chart;
      }
    }
  }
  ADD_FAILURE() << "no chart " << title;
  return {};
}

TEST(Report, ShowsEveryNumberOfTheRun) {
  const Scratch run;
  write_file(run / "metrics.jsonl", metrics_text(100));
  write_file(run / "config.toml", "[train]\nnote = \"<&>\"\n");
  write_file(run / "environment.json", R"({"cores": 2})");
  const RunReport report = make_report(run.path());
  EXPECT_EQ(report.steps, 100);
  EXPECT_EQ(report.notes, std::vector<std::string>{});
  for (const char* part : {"note = &quot;&lt;&amp;&gt;&quot;", "&quot;cores&quot;: 2", "75.0%",
                           "25.0%", ">100k<", "skipped steps", "not running"}) {
    EXPECT_NE(report.html.find(part), std::string::npos) << part;
  }
  const Json data = data_of(report.html);
  const Json loss = chart_of(data, "Loss").find("series")->array()[0];
  EXPECT_EQ(loss.find("mean")->array().size(), 100u);
  EXPECT_EQ(loss.find("mean")->array()[56].number(), 41.566);
  EXPECT_EQ(data.find("skipped")->array()[0].integer(), 57);
  EXPECT_EQ(data.find("phases")->array().size(), 2u);
  EXPECT_EQ(data.find("axis")->find("tokens")->array()[9].number(), 10'000);
  EXPECT_EQ(chart_of(data, "my_own_number").find("series")->array().size(), 1u);
  const Json entropy = chart_of(data, "Entropy of the router's load, by layer");
  EXPECT_EQ(entropy.find("rows")->array().size(), 3u);
  const Json load = chart_of(data, "Load of each expert in the last steps");
  EXPECT_EQ(load.find("rows")->array()[0].array()[0].number(), 1.5);
  EXPECT_EQ(load.find("rows")->array()[2].array()[1].number(), 2);
}

TEST(Report, NeedsNothingFromElsewhereAndNoTextLeavesItsPlace) {
  const Scratch run;
  Json row = metrics_row(1);
  row["</script><b>"] = 3;
  write_file(run / "metrics.jsonl", row.dump() + "\n");
  const std::string html = make_report(run.path()).html;
  for (const char* part : {"src=", "<link", "@import", "url(http", "fetch(", "</script><b>"}) {
    EXPECT_EQ(html.find(part), std::string::npos) << part;
  }
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(html.find("width=device-width"), std::string::npos);
}

TEST(Report, SaysWhatIsWrongWithTheFile) {
  const Scratch run;
  const std::string good = metrics_text(5);
  write_file(run / "metrics.jsonl", good + "not <json>\n{\"loss\": 1}\n" + metrics_row(3).dump() +
                                        "\n" + metrics_row(6).dump() + "\n{\"step\": 7, \"los");
  const RunReport report = make_report(run.path());
  EXPECT_EQ(report.steps, 6);
  ASSERT_EQ(report.notes.size(), 4u);
  EXPECT_EQ(report.notes[0].find("metrics.jsonl: line 6: "), 0u) << report.notes[0];
  EXPECT_EQ(report.notes[1],
            "metrics.jsonl: line 7: is no line of metrics: it has no integer \"step\"");
  EXPECT_EQ(report.notes[2], "metrics.jsonl: line 8: step 3 comes after step 5; left out");
  EXPECT_EQ(report.notes[3].find("metrics.jsonl: line 10 is cut short"), 0u) << report.notes[3];
  EXPECT_NE(report.html.find("line 10 is cut short"), std::string::npos);
}

TEST(Report, TakesALastLineWithoutNewlineAndAnEmptyFile) {
  const Scratch run;
  std::string text = metrics_text(3);
  text.pop_back();
  write_file(run / "metrics.jsonl", text);
  EXPECT_EQ(make_report(run.path()).steps, 3);
  write_file(run / "metrics.jsonl", "");
  const RunReport empty = make_report(run.path());
  EXPECT_EQ(empty.notes, std::vector<std::string>{"no step was written yet"});
  EXPECT_EQ(data_of(empty.html).find("groups")->array().size(), 0u);
}

TEST(Report, StaysSmallAndKeepsSpikes) {
  const Scratch run;
  write_file(run / "metrics.jsonl", metrics_text(20'000));
  const RunReport report = make_report(run.path());
  EXPECT_EQ(report.steps, 20'000);
  EXPECT_LT(report.html.size(), 1'000'000u);
  const Json loss = chart_of(data_of(report.html), "Loss").find("series")->array()[0];
  EXPECT_LE(loss.find("mean")->array().size(), RunMetrics::kPoints);
  EXPECT_GE(loss.find("mean")->array().size(), RunMetrics::kPoints / 2);
  double highest = 0;
  for (const Json& value : loss.find("high")->array()) highest = std::max(highest, value.number());
  EXPECT_EQ(highest, 41.566);
}

TEST(Report, SaysWhoRunsIt) {
  const Scratch run;
  const RunLock lock(run.path());
  write_file(run / "metrics.jsonl", metrics_text(1));
  EXPECT_NE(make_report(run.path()).html.find("running: process "), std::string::npos);
}

TEST(Report, NeedsARun) {
  const Scratch run;
  const Error error = error_of([&] { make_report(run.path()); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_EQ(error.what(), run.path().string() + ": is no run folder: there is no metrics.jsonl");
}

TEST(Thinned, BucketsHoldEveryValueOnce) {
  for (int64_t count : {0, 1, 7, 8, 9, 16, 17, 100, 1000}) {
    Buckets<ValueRange> buckets(8);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      buckets.add(i, ValueRange(static_cast<double>(i * i % 31)));
      sum += static_cast<double>(i * i % 31);
    }
    double total = 0;
    int64_t next = 0;
    for (const auto& bucket : buckets.all()) {
      EXPECT_EQ(bucket.first_step, next);
      EXPECT_EQ(bucket.last_step - bucket.first_step + 1, bucket.count);
      next = bucket.last_step + 1;
      total += bucket.content.sum;
    }
    EXPECT_EQ(next, count);
    EXPECT_EQ(total, sum);
    EXPECT_LE(buckets.all().size(), 8u);
    if (count >= 8) {
      EXPECT_GE(buckets.all().size(), 4u);
    }
  }
}

}  // namespace
}  // namespace tephra

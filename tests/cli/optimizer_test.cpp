// SPDX-License-Identifier: Apache-2.0
// `verify --optimizer` from end to end, and the benches of the optimizer on sizes that take no
// time.
#include <gtest/gtest.h>

#include "tephra/base/json.h"
#include "tephra/cli/bench_optimizer.h"
#include "tephra/io/safetensors.h"
#include "tests/support/message_of.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

const std::string kGoldenDir = TEPHRA_GOLDEN_DIR;

std::vector<std::string> replay(const std::string& folder, const std::string& optimizer) {
  return {"verify",      "--quiet",
          "--model",     kGoldenDir + "/" + folder,
          "--golden",    kGoldenDir + "/" + folder + "/trajectory.safetensors",
          "--optimizer", optimizer,
          "--json"};
}

Ran verify(const std::vector<std::string>& arguments) {
  return Program{.path = TEPHRA_BINARY}(arguments);
}

TEST(VerifyOptimizer, ReplaysBothRunsAndPrintsTheChecks) {
  for (const char* optimizer : {"muon", "adamw"}) {
    const Ran ran = verify(replay(std::string("train-") + optimizer, optimizer));
    EXPECT_EQ(ran.code, 0) << ran.err;
    const Json json = Json::parse(ran.out, "stdout");
    EXPECT_TRUE(json.find("pass")->boolean());
    ASSERT_EQ(json.find("checks")->array().size(), 3u);
    for (const Json& check : json.find("checks")->array()) {
      for (const char* key : {"name", "max_abs", "max_rel", "worst", "bound", "pass"}) {
        EXPECT_NE(check.find(key), nullptr) << key;
      }
      EXPECT_TRUE(check.find("pass")->boolean()) << check.dump();
    }
  }
}

TEST(VerifyOptimizer, FailsWithThreeWhenTheRunIsAnother) {
  const Scratch scratch;
  const auto right = SafetensorsFile::open(kGoldenDir + "/train-muon/trajectory.safetensors");
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const TensorEntry& e : right.entries()) tensors.emplace_back(e.name, right.tensor(e.name));
  Metadata metadata = right.metadata();
  metadata["lr"] = "0.004";
  write_safetensors(scratch / "t.safetensors", tensors, metadata);
  std::vector<std::string> arguments = replay("train-muon", "muon");
  arguments[5] = (scratch / "t.safetensors").string();
  const Ran ran = verify(arguments);
  EXPECT_EQ(ran.code, 3);
  const Json json = Json::parse(ran.out, "stdout");
  EXPECT_FALSE(json.find("pass")->boolean());

  metadata.erase("lr");
  write_safetensors(scratch / "t.safetensors", tensors, metadata);
  const Ran lacking = verify(arguments);
  EXPECT_EQ(lacking.code, 3);
  EXPECT_NE(lacking.err.find("expected the hyper-parameter 'lr', got none"), std::string::npos)
      << lacking.err;
}

TEST(VerifyOptimizer, SaysWhatToTypeInstead) {
  const Ran other = verify(replay("train-adamw", "muon"));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("say --optimizer adamw"), std::string::npos) << other.err;

  std::vector<std::string> without = replay("train-muon", "muon");
  without.erase(without.begin() + 6, without.begin() + 8);
  const Ran plain = verify(without);
  EXPECT_EQ(plain.code, 2);
  EXPECT_NE(plain.err.find("records a training run; add --optimizer muon"), std::string::npos)
      << plain.err;

  const Ran unknown = verify(replay("train-muon", "sgd"));
  EXPECT_EQ(unknown.code, 2);

  const Ran none = verify(
      {"verify", "--model", kGoldenDir + "/train-muon", "--optimizer", "muon", "--self-check"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("--optimizer: expected --golden FILE"), std::string::npos) << none.err;
}

TEST(OptimizerBench, ReadsShapes) {
  const MatrixBatch b = parse_matrix_batch("8x512x1024");
  EXPECT_EQ(b.count, 8);
  EXPECT_EQ(b.rows, 512);
  EXPECT_EQ(b.cols, 1024);
  for (const char* wrong :
       {"", "8x512", "8x512x0", "8x512x1024x2", "8x-1x4", "ax2x3", "8x512x9z"}) {
    EXPECT_EQ(message_of([&] { parse_matrix_batch(wrong); }),
              format("--shape: expected COUNTxROWSxCOLS such as 8x512x1024, got '{}'", wrong));
  }
}

TEST(OptimizerBench, HasARowForEveryPart) {
  const OptimizerBenchOptions options{
      .batches = {{2, 24, 40}, {1, 40, 24}}, .steps = false, .elements = 4096};
  const Ceilings some{.gemm_gflops = 100, .gemm_gflops_per_thread = 50, .streams = {{{4, 3}, 10}}};
  BenchReport report;
  report.rows = bench_ops(optimizer_bench_specs(options), {.seconds = 0}, some);
  ASSERT_EQ(report.rows.size(), 5u);
  EXPECT_EQ(report.rows[0].bench, "2 x 24 x 40");
  EXPECT_EQ(report.rows[0].peer, "sgemm, peak");
  EXPECT_EQ(report.rows[2].peer, "memory 4r 0w");
  EXPECT_EQ(report.rows[3].peer, "memory 4r 3w");
  for (const BenchRow& row : report.rows) EXPECT_GT(row.share, 0) << row.bench;
  const OptimizerFigures figures = optimizer_figures(report, options);
  ASSERT_EQ(figures.full.size(), 2u);
  EXPECT_GT(figures.full[0].share, report.rows[0].share) << "full products are more work";
  EXPECT_GT(figures.newton_schulz_flops, 0);
}

}  // namespace
}  // namespace tephra

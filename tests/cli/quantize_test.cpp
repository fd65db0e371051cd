// SPDX-License-Identifier: Apache-2.0
// Quantising, comparing and timing as a person does it.
#include <gtest/gtest.h>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

Ran tephra(const std::vector<std::string>& arguments) {
  return Program{.path = TEPHRA_BINARY}(arguments);
}

// A tiny random model and its 8-bit self.
struct Models {
  Scratch scratch;
  std::string source = scratch / "source", packed = scratch / "packed";

  Models() {
    const Ran made = tephra(
        {"checkpoint", "random", "--config", "tiny", "--out", source, "--init", "golden-like"});
    EXPECT_EQ(made.code, 0) << made.err;
    const Ran ran =
        tephra({"checkpoint", "quantize", "--model", source, "--bits", "8", "--out", packed});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_NE(ran.err.find("written"), std::string::npos) << ran.err;
  }
};

TEST(CheckpointQuantize, TheOtherCommandsTakeTheFolder) {
  const Models m;
  const Ran inspect = tephra({"checkpoint", "inspect", m.packed});
  EXPECT_EQ(inspect.code, 0) << inspect.err;
  EXPECT_NE(inspect.out.find("q8, embedding and head q8; groups of 32"), std::string::npos);
  EXPECT_EQ(tephra({"checkpoint", "verify", m.packed}).code, 0);
  const Ran generate =
      tephra({"generate", "--model", m.packed, "--prompt-ids", "1,2,3", "--max-new-tokens", "3"});
  EXPECT_EQ(generate.code, 0) << generate.err;
}

TEST(CheckpointQuantize, RefusesOtherWidths) {
  const Models m;
  for (const char* bits : {"0", "3", "16"}) {
    const Ran ran = tephra(
        {"checkpoint", "quantize", "--model", m.source, "--bits", bits, "--out", m.scratch / "x"});
    EXPECT_EQ(ran.code, 2) << bits;
  }
  EXPECT_EQ(tephra({"checkpoint", "quantize", "--model", m.packed, "--out", m.scratch / "x"}).code,
            2);
  EXPECT_EQ(tephra({"generate", "--model", m.packed, "--prompt-ids", "1", "--dtype", "bf16"}).code,
            2);
}

TEST(BenchDecode, CountsBytesAndGivesTheShare) {
  const Models m;
  const Ran ran = tephra({"bench", "decode", "--model", m.packed, "--tokens", "2", "--context", "4",
                          "--ceiling-seconds", "0.05", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  const Json* bytes = json.find("bytes_per_step");
  ASSERT_NE(bytes, nullptr);
  EXPECT_GT(bytes->find("quantised")->number(), 0);
  EXPECT_GT(bytes->find("other_weights")->number(), 0);
  EXPECT_GT(json.find("share")->find("median")->number(), 0);
}

TEST(BenchPrefill, CountsWorkAndGivesTheShare) {
  const Models m;
  const Ran ran = tephra({"bench", "prefill", "--model", m.packed, "--tokens", "32",
                          "--ceiling-seconds", "0.05", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  EXPECT_GT(json.find("flops")->number(), 0);
  EXPECT_GT(json.find("share")->find("median")->number(), 0);
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/step_data.h"

#include <gtest/gtest.h>

#include "tephra/io/token_shard.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

std::string shard_of(const Path& prefix, size_t tokens) {
  TokenShardWriter writer(prefix, 256);
  writer.add_document(std::vector<int32_t>(tokens, 7));
  writer.commit();
  return prefix.string();
}

PhaseSettings phase(int64_t context) {
  PhaseSettings p;
  p.steps = 3;
  p.context = context;
  p.batch_tokens = context;
  return p;
}

// Else a run would end at its first look at them, days after its start.
TEST(StepData, SaysAtTheStartThatHeldOutDataDoesNotFillAContext) {
  const Scratch scratch;
  RunConfig config;
  SourceConfig text;
  text.name = "text";
  text.paths = {shard_of(scratch / "train", 100)};
  text.validation_paths = {shard_of(scratch / "held-out", 20)};
  config.data.sources = {text};
  config.phases = {phase(8), phase(32)};
  const TextParts parts{.vocab_size = 256};
  EXPECT_STREQ(error_of([&] { StepData(config, Phases(config.phases), parts); }).what(),
               "source 'text': its longest shard has 20 tokens; a context of 32 needs one more "
               "than that");
  config.validation.samples = 0;
  StepData unasked(config, Phases(config.phases), parts);
  EXPECT_EQ(unasked.batch(0).size(), 1u);
}

}  // namespace
}  // namespace tephra

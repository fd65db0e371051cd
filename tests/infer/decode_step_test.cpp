// SPDX-License-Identifier: Apache-2.0
// A model's own kernels for single tokens against the ops they stand for, on a GPU. Skipped where
// there is none.
#include "tephra/models/decode_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <set>
#include <utility>

#include "tephra/device/gpu/runtime.h"
#include "tephra/infer/scheduler.h"
#include "tephra/infer/verify.h"
#include "tests/infer/step_batch.h"

namespace tephra {
namespace {

using namespace step_test;  // NOLINT(google-build-using-namespace): the vocabulary of this file

class DecodeStepGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
    poison_new_memory(true);
  }
  void TearDown() override { poison_new_memory(false); }
};

TEST_F(DecodeStepGpu, SaysWhatTheOpsSay) {
  for (const int64_t heads : {2, 4, 8}) {
    const auto model = step_model(step_config(heads), kFirstGpu);
    const auto on_cpu = step_model(step_config(heads), kCpu, DType::f32);
    const std::vector<int64_t> lengths{1, 63, 130, 401};
    StepBatch ops(*model, lengths), step(*model, lengths), oracle(*on_cpu, lengths);
    ASSERT_TRUE(step.takes_steps());
    for (uint32_t i = 0; i < 3; ++i) {
      const std::vector<int32_t> tokens = step_tokens(4, 100 + i);
      const Tensor exact = oracle.by_ops(tokens);
      const double of_ops = farthest(ops.by_ops(tokens), exact);
      const double of_step = farthest(step.by_step(tokens), exact);
      EXPECT_LE(of_ops, 0.05) << heads << " heads, step " << i;
      EXPECT_LE(of_step, std::max(0.02, 2 * of_ops)) << heads << " heads, step " << i;
    }
  }
}

TEST_F(DecodeStepGpu, NeighboursChangeNoBit) {
  const auto model = step_model(step_config(), kFirstGpu);
  const std::vector<int64_t> own{5, 130};
  StepBatch alone(*model, own);
  std::vector<int32_t> tokens = step_tokens(2, 9);
  std::vector<Tensor> want;
  for (int i = 0; i < 3; ++i) want.push_back(alone.by_step(tokens));
  for (const size_t count : {3u, 8u, 9u, 20u}) {
    std::vector<int64_t> lengths = own;
    while (lengths.size() < count) lengths.push_back(3 + 7 * std::ssize(lengths));
    StepBatch crowd(*model, lengths);
    std::vector<int32_t> all = tokens;
    while (all.size() < count) all.push_back(static_cast<int32_t>(all.size() * 3));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(same_bits(crowd.by_step(all).slice_rows(0, 2), want[i])) << count << " rows";
    }
  }
}

TEST_F(DecodeStepGpu, LongSequencesArePutTogetherFromParts) {
  zaya1::Config config = step_config();
  config.num_layers = 1;
  config.layers.resize(1);
  const auto model = step_model(config, kFirstGpu);
  const std::vector<int64_t> lengths{9000, 700};
  StepBatch ops(*model, lengths), step(*model, lengths), again(*model, lengths);
  for (uint32_t i = 0; i < 2; ++i) {
    const std::vector<int32_t> tokens = step_tokens(2, 50 + i);
    const Tensor got = step.by_step(tokens);
    EXPECT_LE(farthest(got, ops.by_ops(tokens)), 0.05);
    EXPECT_TRUE(same_bits(got, again.by_step(tokens)));
  }
}

TEST_F(DecodeStepGpu, GoesOnByItself) {
  const auto model = step_model(step_config(), kFirstGpu);
  const std::vector<int64_t> lengths{40, 3, 77};
  StepBatch told(*model, lengths), itself(*model, lengths);
  std::vector<int32_t> tokens = step_tokens(3, 1);
  itself.by_step(tokens);
  for (int i = 0; i < 4; ++i) {
    const Tensor logits = told.by_step(tokens);
    EXPECT_TRUE(same_bits(logits, to_device(itself.step->logits(), kCpu))) << "step " << i;
    const auto likeliest = told.step->likeliest();
    for (size_t r = 0; r < 3; ++r) {
      const float* row = logits.row<float>(int64_t(r));
      EXPECT_EQ(likeliest[r].token, std::max_element(row, row + 512) - row);
      tokens[r] = likeliest[r].token;
    }
    const std::vector<float> least{likeliest[0].logit, INFINITY, likeliest[2].logit - 1.0f};
    const auto found = told.step->at_least(least);
    for (size_t r = 0; r < 3; ++r) {
      std::set<int32_t> want, got;
      const float* row = logits.row<float>(int64_t(r));
      for (int32_t t = 0; t < 512; ++t) {
        if (row[t] >= least[r]) want.insert(t);
      }
      for (const auto& [token, logit] : found[r].value()) {
        got.insert(token);
        EXPECT_EQ(logit, row[token]);
      }
      EXPECT_EQ(got, want) << "row " << r;
    }
    itself.step->run_on();
  }
}

// Tokens are looked at as they are told, whatever was launched before and whoever looked at it.
TEST_F(DecodeStepGpu, TellsTheTokensOfItsOwnRows) {
  const auto model = step_model(step_config(), kFirstGpu);
  const std::vector<int64_t> lengths{40, 3, 77, 12, 5};
  StepBatch batch(*model, lengths);
  const auto first = [&](size_t rows) {
    std::vector<int32_t> tokens = step_tokens(5, 1);
    tokens.resize(rows);
    return tokens;
  };
  const auto expect_told = [&](size_t rows, const char* what) {
    const auto likeliest = batch.step->likeliest();
    const Tensor logits = to_device(batch.step->logits(), kCpu);
    ASSERT_EQ(likeliest.size(), rows) << what;
    for (size_t r = 0; r < rows; ++r) {
      const float* row = logits.row<float>(int64_t(r));
      EXPECT_EQ(likeliest[r].token, std::max_element(row, row + 512) - row)
          << what << ", row " << r;
      EXPECT_EQ(likeliest[r].logit, row[likeliest[r].token]) << what << ", row " << r;
    }
  };
  for (const size_t rows : {3, 1, 4, 3, 5}) {  // three and five have rows of the filler beside them
    batch.step_alone(first(rows));
    expect_told(rows, "one step");
  }
  batch.step_alone(first(3));
  batch.step_alone(first(2));
  expect_told(2, "two steps, one looked at");
  batch.step->run_on();
  expect_told(2, "one that went on");
}

// The hidden states of a prompt that is read in pieces that end there, beside another prompt of
// `beside` tokens; passes have 128 rows as the scheduler's do.
std::vector<Tensor> read_prompt(Model& model, const std::vector<int64_t>& ends, int64_t beside) {
  constexpr int64_t kRows = 128;
  PagedState state(model, 12, kStepBlock, 2, kRows);
  const std::vector<int32_t> prompt = step_tokens(ends.back(), 1), other = step_tokens(beside, 2);
  const std::vector<int32_t> blocks{9, 3, 4, 7, 6}, other_blocks{0};  // an odd number of each
  std::vector<Tensor> rows;
  int64_t fed = 0;
  for (const int64_t end : ends) {
    std::vector<PagedState::Part> parts;
    state.clear(1);
    if (beside > 0) parts.push_back({1, other_blocks, 0, other});
    parts.push_back(
        {0, blocks, fed, std::span(prompt).subspan(size_t(fed), static_cast<size_t>(end - fed))});
    const Tensor h = to_device(state.forward(parts, kRows), kCpu);
    for (int64_t i = 0; i < end - fed; ++i) {
      rows.push_back(h.slice_rows(beside + i, beside + i + 1));
    }
    fed = end;
  }
  return rows;
}

TEST_F(DecodeStepGpu, PromptsHaveTheSameBitsHoweverTheyAreCut) {
  const auto model = step_model(step_config(), kFirstGpu);
  const auto want = read_prompt(*model, {128, 256, 290}, 0);
  const std::vector<int64_t> blocks{64, 128, 192, 256, 290}, some{64, 192, 290};
  const std::vector<std::pair<std::vector<int64_t>, int64_t>> ways{
      {blocks, 0}, {some, 0}, {blocks, 10}, {blocks, 64}};
  for (const auto& [ends, beside] : ways) {
    const auto got = read_prompt(*model, ends, beside);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_TRUE(same_bits(got[i], want[i]))
          << "token " << i << ", in " << ends.size() << " pieces beside " << beside;
    }
  }
}

// Of six requests: tokens, logprobs where they are asked for, and tokens found in the cache.
struct Answers {
  std::vector<std::vector<int32_t>> said = std::vector<std::vector<int32_t>>(6);
  std::vector<std::vector<double>> logprobs = std::vector<std::vector<double>>(6);
  std::vector<int64_t> cached = std::vector<int64_t>(6);
};

// Answers of the scheduler: greedy ones and drawn ones. The last two prompts begin as others do.
Answers answers(Model& model, int64_t sequences, bool cache) {
  Answers all;
  Scheduler scheduler(model, {.kv_memory = int64_t{64} << 20,
                              .sequences = sequences,
                              .context = 2000,
                              .block_tokens = kStepBlock,
                              .prefill_tokens = 128,
                              .prefix_cache = cache});
  for (size_t i = 0; i < all.said.size(); ++i) {
    EngineRequest r;
    r.prompt = step_tokens(10 + 60 * int64_t(i % 3), uint32_t(i % 2));
    r.max_new_tokens = 7;
    r.stop_at_eos = false;
    r.stream = static_cast<uint32_t>(i);
    if (i % 2 == 1) r.sampling.temperature = 1.5;
    if (i % 3 == 2) r.top_logprobs = 1;
    r.on_token = [&, i](const EngineToken& t) {
      all.said[i].push_back(t.id);
      if (i % 3 == 2) all.logprobs[i].push_back(t.logprobs.chosen);
      return true;
    };
    r.on_end = [&, i](const EngineEnd& end) {
      EXPECT_EQ(end.reason, EndReason::length) << end.error;
      all.cached[i] = end.usage.cached_tokens;
    };
    scheduler.add(std::move(r));
  }
  while (scheduler.step()) {
  }
  return all;
}

TEST_F(DecodeStepGpu, TheSchedulerAnswersTheSameWhateverElseRuns) {
  const auto model = step_model(step_config(), kFirstGpu);
  const Answers together = answers(*model, 8, true);
  for (const auto& said : together.said) EXPECT_EQ(said.size(), 7u);
  EXPECT_EQ(together.logprobs[5].size(), 7u);
  const Answers in_turn = answers(*model, 2, true), anew = answers(*model, 1, false);
  for (const Answers* other : {&in_turn, &anew}) {
    EXPECT_EQ(other->said, together.said);
    EXPECT_EQ(other->logprobs, together.logprobs);
  }
  // What the cache holds was used, and has the same bits.
  const std::vector<int64_t> found{0, 0, 0, 0, kStepBlock, kStepBlock}, nothing(6, 0);
  EXPECT_EQ(together.cached, found);
  EXPECT_EQ(in_turn.cached, found);
  EXPECT_EQ(anew.cached, nothing);
}

// Several answers to one prompt, of which one reads it, against each alone.
TEST_F(DecodeStepGpu, AnswersToOnePromptBeginWhereItWasRead) {
  const auto model = step_model(step_config(), kFirstGpu);
  for (const int64_t length : {10, 64, 150}) {
    const auto ask = [&](size_t first, size_t count, int64_t sequences, bool cache) {
      std::vector<std::vector<int32_t>> said(count);
      Scheduler scheduler(*model, {.kv_memory = int64_t{64} << 20,
                                   .sequences = sequences,
                                   .context = 2000,
                                   .block_tokens = kStepBlock,
                                   .prefill_tokens = 128,
                                   .prefix_cache = cache});
      for (size_t i = 0; i < count; ++i) {
        EngineRequest r;
        r.prompt = step_tokens(length, 3);
        r.max_new_tokens = 80;
        r.stop_at_eos = false;
        r.stream = static_cast<uint32_t>(first + i);
        r.sampling.temperature = 1.5;
        r.on_token = [&, i](const EngineToken& t) {
          said[i].push_back(t.id);
          return true;
        };
        scheduler.add(std::move(r));
      }
      while (scheduler.step()) {
      }
      EXPECT_EQ(scheduler.stats().cached_tokens, cache ? int64_t(count - 1) * length : 0);
      return said;
    };
    const auto together = ask(0, 8, 8, true);
    EXPECT_EQ(together, ask(0, 8, 3, true)) << length << " tokens";
    for (size_t i = 0; i < together.size(); ++i) {
      EXPECT_EQ(together[i], ask(i, 1, 1, false)[0]) << length << " tokens, answer " << i;
    }
  }
}

TEST_F(DecodeStepGpu, IsNearTheForwardPassWhenItTakesTheSameExperts) {
  const auto model = step_model(step_config(), kFirstGpu);
  const VerifyReport report = verify_engine(*model, 24, 1);
  ASSERT_EQ(report.checks.size(), 1u);
  EXPECT_LE(report.checks[0].max_abs, 2e-4);
  std::cout << format("mean KL {:.2g}\n", report.checks[0].max_abs);
  ASSERT_EQ(report.notes.size(), 1u);

  StepBatch batch(*model, {5, 9});
  const Tensor told = full({3, 2}, DType::i32, 3);
  told.set(2, 4);  // row 0 skips in layer 1
  batch.replay(told);
  batch.by_step({7, 8});
  EXPECT_TRUE(same_bits(to_device(clone(batch.step->experts()), kCpu), told));
}

// A model without kernels of its own runs by the ops.
TEST_F(DecodeStepGpu, OtherDtypesRunByTheOps) {
  const auto model = step_model(step_config(), kFirstGpu, DType::f32);
  const auto on_cpu = step_model(step_config(), kCpu, DType::f32);
  const Answers together = answers(*model, 8, true);
  EXPECT_EQ(together.said, answers(*on_cpu, 8, true).said);
  for (const int64_t sequences : {2, 100}) {
    const Answers other = answers(*model, sequences, true);
    EXPECT_EQ(other.said, together.said);
    EXPECT_EQ(other.logprobs, together.logprobs);
  }
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/batch_generate.h"

#include <gtest/gtest.h>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/infer/decoder.h"
#include "tephra/infer/generate.h"
#include "tephra/infer/scheduler.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

std::unique_ptr<Model> tiny_for_batches(DType dtype = DType::f32) {
  return load_model(Path(TEPHRA_GOLDEN_DIR) / "zaya-tiny", {.dtype = dtype});
}

// Prompts of many lengths, some longer than a chunk.
std::vector<GenerateRequest> mixed_requests(size_t count) {
  std::vector<GenerateRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    GenerateRequest r{.max_new_tokens = static_cast<int64_t>(i * 5 % 23), .stream = uint32_t(i)};
    const size_t length = 1 + i * i * 7 % 61;
    for (size_t t = 0; t < length; ++t)
      r.prompt.push_back(static_cast<int32_t>(3 + (i + t * 5) % 90));
    requests.push_back(std::move(r));
  }
  return requests;
}

std::vector<std::vector<int32_t>> tokens_of(const std::vector<BatchGeneration>& results) {
  std::vector<std::vector<int32_t>> tokens;
  for (const BatchGeneration& r : results) tokens.push_back(r.tokens);
  return tokens;
}

TEST(BatchGenerate, GivesARequestTheSameTokensWhateverRunsBesideIt) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto model = tiny_for_batches(dtype);
    const std::vector<GenerateRequest> requests = mixed_requests(30);
    // Hot, so that a change of the last bit of a logit changes tokens now and then.
    BatchOptions options{.sampling = {.temperature = 1.5, .seed = 5}, .prefill_chunk = 32};
    const auto together = tokens_of(batch_generate(*model, requests, options));
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto alone = batch_generate(*model, std::span(&requests[i], 1), options);
      EXPECT_EQ(alone[0].tokens, together[i]) << i;
    }
    for (const int64_t sequences : {1, 3, 16}) {
      options.sequences = sequences;
      options.pass_tokens = 40;
      EXPECT_EQ(tokens_of(batch_generate(*model, requests, options)), together) << sequences;
    }
  }
}

// Another model that counts the rows it was asked for.
class RowCounter : public Model {
 public:
  explicit RowCounter(Model& model) : model_(model) {}
  const TokenIds& tokens() const override { return model_.tokens(); }
  int64_t context_limit() const override { return model_.context_limit(); }
  StateSpec state_spec() const override { return model_.state_spec(); }
  ParameterStore& parameters() override { return model_.parameters(); }
  Json config_json() const override { return model_.config_json(); }
  void set_rope_theta(double theta) override { model_.set_rope_theta(theta); }
  Tensor forward(const Tensor& ids_N, const Segments& segments, Decoding* d) const override {
    fed += ids_N.numel();
    return model_.forward(ids_N, segments, d);
  }
  Tensor logits(const Tensor& h_NH) const override {
    chosen += h_NH.rows();
    return model_.logits(h_NH);
  }
  Tensor loss(const Tensor& h_NH, const Tensor& targets_N, double scale) const override {
    return model_.loss(h_NH, targets_N, scale);
  }

  mutable int64_t fed = 0, chosen = 0;

 private:
  Model& model_;
};

// No row is computed only to make up a number: it would read the weights of an expert of its own.
TEST(BatchGenerate, ComputesNoRowsThatNobodyAskedFor) {
  const auto model = tiny_for_batches();
  RowCounter counter(*model);
  const std::vector<GenerateRequest> requests = mixed_requests(3);
  const auto results = batch_generate(counter, requests, {});
  int64_t fed = 0, chosen = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const int64_t drawn =
        std::ssize(results[i].tokens) + (results[i].finish == FinishReason::eos ? 1 : 0);
    chosen += drawn;
    fed += drawn > 0 ? std::ssize(requests[i].prompt) + drawn - 1 : 0;
  }
  EXPECT_EQ(counter.fed, fed);
  EXPECT_EQ(counter.chosen, chosen);

  for (const bool throughput : {false, true}) {
    RowCounter alone(*model);
    Scheduler scheduler(alone, {.kv_memory = 1 << 24, .throughput = throughput});
    EngineRequest r;
    r.prompt = {5, 6, 7};
    r.max_new_tokens = 4;
    r.stop_at_eos = false;
    scheduler.add(std::move(r));
    while (scheduler.step()) continue;
    EXPECT_EQ(alone.fed, 3 + 3);
    EXPECT_EQ(alone.chosen, 4);
  }
}

// In the kernels for many rows a row's bits are its own, however few there are.
TEST(BatchGenerate, RowsOfAPassDoNotSeeEachOther) {
  const cpu::RowClassScope scope(cpu::RowClass::many);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto model = tiny_for_batches(dtype);
    Decoder many(*model, 40, 64), few(*model, 2, 64);
    std::vector<std::vector<int32_t>> all(40), one(2);
    for (int step = 0; step < 3; ++step) {
      for (int32_t i = 0; i < 40; ++i) all[static_cast<size_t>(i)].assign(1 + i % 3, 3 + i + step);
      one[0] = all[1];
      one[1].assign(static_cast<size_t>(step), 9);
      const Tensor h = many.advance(all), alone = few.advance(one);
      const int64_t rows = static_cast<int64_t>(one[0].size());
      EXPECT_TRUE(same_bits(h.slice_rows(1, 1 + rows), alone.slice_rows(0, rows))) << step;
      EXPECT_TRUE(
          same_bits(model->logits(h).slice_rows(1, 2), model->logits(alone).slice_rows(0, 1)));
    }
  }
}

TEST(BatchGenerate, SaysWhatGenerateSays) {
  const auto model = tiny_for_batches();
  const std::vector<GenerateRequest> requests = mixed_requests(20);
  const auto results = batch_generate(*model, requests, {});
  for (size_t i = 0; i < requests.size(); ++i) {
    std::vector<int32_t> want =
        generate(*model, requests[i].prompt, {.max_new_tokens = requests[i].max_new_tokens}).tokens;
    const auto& eos = model->tokens().eos;
    const bool ended = !want.empty() && std::find(eos.begin(), eos.end(), want.back()) != eos.end();
    if (ended) want.pop_back();
    EXPECT_EQ(results[i].tokens, want) << i;
    EXPECT_EQ(results[i].finish, ended ? FinishReason::eos : FinishReason::length);
  }
}

TEST(BatchGenerate, IsTheSameOnAnyNumberOfThreads) {
  const auto model = tiny_for_batches();
  const std::vector<GenerateRequest> requests = mixed_requests(20);
  const BatchOptions options{.sampling = {.temperature = 1.5, .seed = 5}, .sequences = 17};
  const int before = num_threads();
  const auto want = tokens_of(batch_generate(*model, requests, options));
  for (const int threads : {1, 3, 8}) {
    set_num_threads(threads);
    EXPECT_EQ(tokens_of(batch_generate(*model, requests, options)), want) << threads;
  }
  set_num_threads(before);
}

TEST(BatchGenerate, EndsARequestAtItsEndTokenOrWhenTold) {
  const auto model = tiny_for_batches();
  const std::vector<GenerateRequest> requests(4, {.prompt = {5, 6, 7}, .max_new_tokens = 12});
  const auto free = batch_generate(*model, requests, {});
  ASSERT_GE(free[0].tokens.size(), 6u);

  const int32_t end = free[0].tokens[4];
  const auto at = std::find(free[0].tokens.begin(), free[0].tokens.end(), end);
  const auto ended = batch_generate(*model, requests, {.end_tokens = {end}});
  EXPECT_EQ(ended[2].tokens, std::vector<int32_t>(free[0].tokens.begin(), at));
  EXPECT_EQ(ended[2].finish, FinishReason::eos);

  std::vector<size_t> finished;
  size_t seen = 0;
  BatchOptions options;
  options.on_token = [&](size_t request, int32_t) { return request != 1 || ++seen < 3; };
  options.on_finish = [&](size_t request, const BatchGeneration&) { finished.push_back(request); };
  const auto told = batch_generate(*model, requests, options);
  EXPECT_EQ(told[1].tokens.size(), 3u);
  EXPECT_EQ(told[1].finish, FinishReason::stopped);
  EXPECT_EQ(told[3].tokens, free[3].tokens);
  ASSERT_EQ(finished.size(), 4u);
  EXPECT_EQ(finished[0], 1u);
}

TEST(BatchGenerate, GivesStreamsOfTheirOwnDraws) {
  const auto model = tiny_for_batches();
  std::vector<GenerateRequest> requests(3, {.prompt = {5, 6, 7}, .max_new_tokens = 12});
  requests[1].stream = 1;
  const auto results = batch_generate(*model, requests, {.sampling = {.temperature = 1}});
  EXPECT_NE(results[0].tokens, results[1].tokens);
  EXPECT_EQ(results[0].tokens, results[2].tokens);
}

TEST(BatchGenerate, UsesFewerPlacesWhereTheCacheIsSmall) {
  const auto model = tiny_for_batches();
  const std::vector<GenerateRequest> requests = mixed_requests(10);
  EXPECT_EQ(tokens_of(batch_generate(*model, requests, {.cache_bytes = 1})),
            tokens_of(batch_generate(*model, requests, {})));
}

TEST(BatchGenerate, SaysWhichRequestIsWrong) {
  const auto model = tiny_for_batches();
  std::vector<GenerateRequest> requests = mixed_requests(3);
  requests[1].prompt.clear();
  EXPECT_EQ(message_of([&] { batch_generate(*model, requests, {}); }),
            "batch generate: prompt 1 is empty; give at least one token");
  requests[1] = {.prompt = {5, 6, 7}, .max_new_tokens = 511};
  EXPECT_EQ(message_of([&] { batch_generate(*model, requests, {}); }),
            "context: prompt 1 of 3 and 511 new tokens do not fit the model's limit of 512; "
            "shorten the prompt or ask for fewer new tokens");
  EXPECT_TRUE(batch_generate(*model, {}, {}).empty());
}

TEST(Decoder, ForgetsASequenceAndStartsItAnew) {
  const auto model = tiny_for_batches();
  Decoder used(*model, 2, 32), fresh(*model, 2, 32);
  using Tokens = std::vector<std::vector<int32_t>>;
  used.advance(Tokens{{3, 4, 5}, {6, 7}});
  const Decoder::Snapshot snapshot = used.snapshot();
  const int64_t first = 0;
  used.forget(std::span(&first, 1));
  EXPECT_EQ(used.length(0), 0);
  EXPECT_EQ(used.length(1), 2);
  fresh.advance(Tokens{{}, {6, 7}});
  const Tokens next = {{8, 9, 10}, {11}};
  EXPECT_TRUE(same_bits(used.advance(next), fresh.advance(next)));
  EXPECT_THROW(used.restore(snapshot), Error);
  const int64_t none = 2;
  EXPECT_EQ(message_of([&] { used.forget(std::span(&none, 1)); }),
            "decoder: expected a sequence in [0, 2), got 2");
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// What the engine promises: answers that depend on the request alone.
#include "tephra/infer/scheduler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>

#include "tephra/base/parallel.h"
#include "tephra/core/rng.h"
#include "tephra/infer/batch_generate.h"
#include "tests/infer/step_batch.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

constexpr int64_t kBlock = 16;

std::unique_ptr<Model> tiny_for_engine(DType dtype = DType::f32, const char* name = "zaya-tiny") {
  return load_model(Path(TEPHRA_GOLDEN_DIR) / name, {.dtype = dtype});
}

EngineOptions small_blocks() { return {.sequences = 8, .block_tokens = kBlock}; }

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<double> logprobs;
  EngineEnd end;
  bool ended = false;
};

// Prompts of many lengths, some with the same beginnings.
std::vector<int32_t> prompt_of(size_t i) {
  std::vector<int32_t> prompt;
  const size_t length = 1 + i * i * 7 % 91, family = i % 3;
  for (size_t t = 0; t < length; ++t) {
    prompt.push_back(static_cast<int32_t>(3 + (family * 11 + t * 5) % 90));
  }
  if (i % 4 == 0) prompt.back() = static_cast<int32_t>(5 + i % 80);
  return prompt;
}

// Odd and even ids by turns.
class ParityFilter : public TokenFilter {
 public:
  std::span<const uint64_t> allowed() override {
    bits_.assign(2, odd_ ? 0xaaaa'aaaa'aaaa'aaaa : 0x5555'5555'5555'5555);
    return bits_;
  }
  void accept(int32_t id) override {
    EXPECT_EQ(id % 2 == 1, odd_);
    odd_ = !odd_;
  }

 private:
  bool odd_ = true;
  std::vector<uint64_t> bits_;
};

EngineRequest request_of(size_t i, Answer& answer) {
  EngineRequest r;
  r.prompt = prompt_of(i);
  r.max_new_tokens = 1 + static_cast<int64_t>(i * 5 % 40);
  r.stream = static_cast<uint32_t>(i);
  // Hot, so that a change of the last bit of a logit changes tokens now and then.
  r.sampling.temperature = 1.5;
  r.sampling.seed = 5;
  if (i % 5 == 1) r.sampling.repetition = 1.3;
  if (i % 5 == 2) r.sampling.frequency = 0.4;
  if (i % 5 == 3) r.sampling.bias = {{7, 2.5}, {11, -100.0}};
  if (i % 5 == 4) r.filter = std::make_unique<ParityFilter>();
  if (i % 7 == 3) r.sampling.presence = 0.3;
  if (i % 7 == 4) r.sampling.top_p = 0.9;
  if (i % 7 == 5) r.sampling.top_k = 20;
  if (i % 7 == 6) r.sampling.min_p = 0.02;
  r.top_logprobs = 0;
  r.stop_at_eos = false;
  r.on_token = [&answer](const EngineToken& token) {
    answer.tokens.push_back(token.id);
    answer.logprobs.push_back(token.logprobs.chosen);
    return true;
  };
  r.on_end = [&answer](const EngineEnd& end) {
    EXPECT_FALSE(answer.ended);
    answer.end = end;
    answer.ended = true;
  };
  return r;
}

Answer alone(Model& model, size_t i, EngineOptions options = small_blocks()) {
  Answer answer;
  Scheduler scheduler(model, options);
  scheduler.add(request_of(i, answer));
  while (scheduler.step()) {
  }
  EXPECT_TRUE(answer.ended);
  return answer;
}

void expect_same(const Answer& got, const Answer& want, size_t i) {
  EXPECT_EQ(got.tokens, want.tokens) << "request " << i;
  EXPECT_EQ(got.logprobs, want.logprobs) << "request " << i;  // to the bit
}

void expect_answers_of_their_own(DType dtype, bool throughput) {
  const auto model = tiny_for_engine(dtype);
  EngineOptions options = small_blocks();
  options.throughput = throughput;
  options.sequences = 20;
  constexpr size_t kRequests = 32;
  std::vector<Answer> want;
  for (size_t i = 0; i < kRequests; ++i) want.push_back(alone(*model, i, options));

  for (const uint64_t seed : {1, 2}) {
    // Random arrivals, and some that are cancelled at random moments.
    std::vector<Answer> got(kRequests);
    std::map<size_t, uint64_t> numbers;
    options.prefill_tokens = 40;
    Scheduler scheduler(*model, options);
    size_t next = 0;
    for (uint64_t step = 0; next < kRequests || scheduler.stats().running > 0; ++step) {
      const double u = uniform({seed, 1, 0}, step);
      for (size_t n = u < 0.4 ? 3 : 0; n > 0 && next < kRequests; --n, ++next) {
        numbers[next] = scheduler.add(request_of(next, got[next]));
      }
      if (u > 0.9 && !numbers.empty()) {
        auto victim = numbers.begin();
        std::advance(victim, static_cast<int64_t>(step % numbers.size()));
        scheduler.cancel(victim->second);
      }
      scheduler.step();
    }
    while (scheduler.step()) {
    }
    int cancelled = 0;
    for (size_t i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(got[i].ended);
      if (got[i].end.reason == EndReason::cancelled) {
        ++cancelled;  // what it had said is the beginning of the same answer
        ASSERT_LE(got[i].tokens.size(), want[i].tokens.size());
        EXPECT_TRUE(std::equal(got[i].tokens.begin(), got[i].tokens.end(), want[i].tokens.begin()));
      } else {
        expect_same(got[i], want[i], i);
      }
    }
    EXPECT_GT(cancelled, 0);
    EXPECT_EQ(scheduler.stats().blocks_held, 0);
  }
}

TEST(Scheduler, AnswersARequestTheSameWhateverRunsBesideIt) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    expect_answers_of_their_own(dtype, false);
    expect_answers_of_their_own(dtype, true);
  }
}

TEST(Scheduler, ACachedPrefixGivesTheBitsOfNone) {
  for (const char* name : {"zaya-tiny", "zaya-tiny-sliding"}) {
    const auto model = tiny_for_engine(DType::f32, name);
    EngineOptions options = small_blocks();
    Scheduler cached(*model, options);
    int64_t hits = 0;
    for (size_t i = 0; i < 24; ++i) {
      Answer answer;
      cached.add(request_of(i, answer));
      while (cached.step()) {
      }
      options.prefix_cache = false;
      const Answer want = alone(*model, i, options);
      expect_same(answer, want, i);
      EXPECT_EQ(want.end.usage.cached_tokens, 0);
      EXPECT_EQ(answer.end.usage.cached_tokens % kBlock, 0);
      hits += answer.end.usage.cached_tokens;
    }
    EXPECT_GT(hits, 300);
    EXPECT_EQ(cached.stats().cached_tokens, hits);
  }
}

TEST(Scheduler, PutsRequestsAsideWhenMemoryRunsOutAndAnswersThemTheSame) {
  const auto model = tiny_for_engine();
  EngineOptions options = small_blocks();
  options.kv_memory = 9 * PagedState::block_bytes(*model, kBlock);
  constexpr size_t kRequests = 8;
  // Short prompts and long answers: all begin, and then there is not enough for all.
  const auto growing = [](size_t i, Answer& answer) {
    EngineRequest r = request_of(i, answer);
    r.prompt.resize(std::min<size_t>(r.prompt.size(), 17 + i));
    r.max_new_tokens = 60;
    return r;
  };
  std::vector<Answer> got(kRequests);
  Scheduler scheduler(*model, options);
  for (size_t i = 0; i < kRequests; ++i) scheduler.add(growing(i, got[i]));
  while (scheduler.step()) {
    ASSERT_LE(scheduler.stats().blocks_held, 9);
  }
  EXPECT_GT(scheduler.stats().preemptions, 0);
  for (size_t i = 0; i < kRequests; ++i) {
    Answer want;
    Scheduler own(*model, small_blocks());
    own.add(growing(i, want));
    while (own.step()) {
    }
    expect_same(got[i], want, i);
  }
}

TEST(Scheduler, SaysWhatBatchGenerateSays) {
  const auto model = tiny_for_engine();
  Answer answer;
  EngineRequest r = request_of(5, answer);
  r.sampling = {};
  const GenerateRequest same{.prompt = r.prompt, .max_new_tokens = r.max_new_tokens};
  EngineOptions options = small_blocks();
  options.throughput = true;  // the kernels that it uses, too
  Scheduler scheduler(*model, options);
  r.stop_at_eos = true;
  scheduler.add(std::move(r));
  while (scheduler.step()) {
  }
  EXPECT_EQ(answer.tokens, batch_generate(*model, std::span(&same, 1), {})[0].tokens);
}

TEST(Scheduler, IsTheSameOnAnyNumberOfThreads) {
  const auto model = tiny_for_engine();
  const Answer want = alone(*model, 11);
  const int before = num_threads();
  for (const int threads : {1, 3, 8}) {
    set_num_threads(threads);
    expect_same(alone(*model, 11), want, 11);
  }
  set_num_threads(before);
}

// Several answers to one prompt, drawn differently.
std::vector<int32_t> prompt_of_length(int64_t length) {
  std::vector<int32_t> prompt;
  for (int64_t t = 0; t < length; ++t) prompt.push_back(static_cast<int32_t>(3 + t * 5 % 90));
  return prompt;
}

EngineRequest one_of_several(int64_t length, size_t i, Answer& answer) {
  EngineRequest r = request_of(5 * i, answer);  // without filters
  r.prompt = prompt_of_length(length);
  r.max_new_tokens = i % 4 == 3 ? 1 : 20;
  return r;
}

Answer one_alone(Model& model, int64_t length, size_t i, EngineOptions options = small_blocks()) {
  Answer answer;
  options.prefix_cache = false;
  Scheduler scheduler(model, options);
  scheduler.add(one_of_several(length, i, answer));
  while (scheduler.step()) {
  }
  return answer;
}

TEST(Scheduler, ReadsAPromptOnceForSeveralAnswers) {
  struct Case {
    const char* model;
    DType dtype;
    int64_t length, sequences;
  };
  // Shorter than a block, whole blocks, more; all at once, and some when there is a place for them.
  for (const Case& c :
       {Case{"zaya-tiny", DType::f32, 1, 16}, Case{"zaya-tiny", DType::f32, 11, 16},
        Case{"zaya-tiny", DType::f32, 32, 16}, Case{"zaya-tiny", DType::f32, 43, 3},
        Case{"zaya-tiny", DType::bf16, 43, 16}, Case{"zaya-tiny-sliding", DType::f32, 43, 1}}) {
    const auto model = tiny_for_engine(c.dtype, c.model);
    std::vector<Answer> got(16);
    EngineOptions options = small_blocks();
    options.sequences = c.sequences;
    Scheduler scheduler(*model, options);
    for (size_t i = 0; i < got.size(); ++i) scheduler.add(one_of_several(c.length, i, got[i]));
    while (scheduler.step()) {
    }
    for (size_t i = 0; i < got.size(); ++i) {
      expect_same(got[i], one_alone(*model, c.length, i), i);
      EXPECT_EQ(got[i].end.usage.cached_tokens, i == 0 ? 0 : c.length) << "answer " << i;
    }
    EXPECT_NE(got[1].tokens, got[0].tokens);
    EXPECT_EQ(scheduler.stats().cached_tokens, 15 * c.length);
    EXPECT_EQ(scheduler.stats().blocks_held, 0);
  }
}

// Prompts behind blocks of others, and several answers to one, with packed weights.
TEST(Scheduler, ACachedPrefixGivesTheBitsOfNoneQuantised) {
  for (const PackedFormat packed : {PackedFormat::q8, PackedFormat::q4}) {
    const auto model = step_test::quantised_step_model(step_test::step_config(2), {packed, packed},
                                                       kCpu, DType::f32);
    Scheduler scheduler(*model, small_blocks());
    struct Case {
      int64_t length, cached;
      size_t answers;
    };
    for (const Case& c : {Case{43, 0, 1}, Case{90, 32, 1}, Case{90, 80, 1}, Case{75, 64, 4}}) {
      std::vector<Answer> got(c.answers);
      for (size_t i = 0; i < got.size(); ++i) scheduler.add(one_of_several(c.length, i, got[i]));
      while (scheduler.step()) {
      }
      for (size_t i = 0; i < got.size(); ++i) {
        expect_same(got[i], one_alone(*model, c.length, i), i);
        EXPECT_EQ(got[i].end.usage.cached_tokens, i == 0 ? c.cached : c.length) << to_text(packed);
      }
    }
  }
}

TEST(Scheduler, WhoWaitsForAPromptDoesNotDependOnWhoReadsIt) {
  const auto model = tiny_for_engine();
  for (const int64_t length : {11, 43}) {  // read in one step, and in three
    for (const int after : {0, 1, 2, 3, 4}) {
      std::vector<Answer> got(5);
      EngineOptions options = small_blocks();
      options.sequences = 2;
      Scheduler scheduler(*model, options);
      for (size_t i = 0; i < got.size(); ++i) scheduler.add(one_of_several(length, i, got[i]));
      for (int step = 0; step < after; ++step) scheduler.step();
      scheduler.cancel(1);
      while (scheduler.step()) {
      }
      EXPECT_EQ(got[0].end.reason, EndReason::cancelled);
      for (size_t i = 1; i < got.size(); ++i) {
        expect_same(got[i], one_alone(*model, length, i), i);
        EXPECT_EQ(got[i].end.reason, EndReason::length);
      }
      EXPECT_GE(scheduler.stats().cached_tokens, 3 * length);
      EXPECT_EQ(scheduler.stats().blocks_held, 0);
    }
  }
}

// A filter that finds no way to go on.
class FailingFilter : public TokenFilter {
 public:
  std::span<const uint64_t> allowed() override { throw Error(Fault::data, "no way"); }
  void accept(int32_t) override {}
};

TEST(Scheduler, ThoseWhoWaitOutliveTheFailureAndTheEndOfAll) {
  const auto model = tiny_for_engine();
  std::vector<Answer> got(3);
  Scheduler scheduler(*model, small_blocks());
  for (size_t i = 0; i < got.size(); ++i) {
    EngineRequest r = one_of_several(43, i, got[i]);
    if (i == 0) r.filter = std::make_unique<FailingFilter>();
    scheduler.add(std::move(r));
  }
  while (scheduler.step()) {
  }
  EXPECT_EQ(got[0].end.reason, EndReason::form);
  for (size_t i = 1; i < got.size(); ++i) expect_same(got[i], one_alone(*model, 43, i), i);

  got.assign(3, {});
  for (size_t i = 0; i < got.size(); ++i) {
    EngineRequest r = one_of_several(11, i, got[i]);
    r.on_end = nullptr;
    scheduler.add(std::move(r));
  }
  scheduler.step();
  EXPECT_GT(scheduler.stats().blocks_held, 0);
  scheduler.end_all(EndReason::failed, "why");
  EXPECT_EQ(scheduler.stats().blocks_held, 0);
  EXPECT_FALSE(scheduler.step());
}

TEST(Scheduler, APromptThatWasReadMakesRoomForThoseWhoNeedIt) {
  const auto model = tiny_for_engine();
  for (const int64_t blocks : {5, 6, 7}) {
    EngineOptions options = small_blocks();
    options.sequences = 3;
    options.kv_memory = blocks * PagedState::block_bytes(*model, kBlock);
    std::vector<Answer> got(6);
    const auto growing = [](size_t i, Answer& answer) {
      EngineRequest r = one_of_several(21, i, answer);
      r.max_new_tokens = i % 2 == 0 ? 60 : 30;  // 80 tokens fill five blocks
      return r;
    };
    Scheduler scheduler(*model, options);
    for (size_t i = 0; i < got.size(); ++i) scheduler.add(growing(i, got[i]));
    while (scheduler.step()) {
      ASSERT_LE(scheduler.stats().blocks_held, blocks);
      ASSERT_LT(scheduler.stats().steps, 2000);
    }
    for (size_t i = 0; i < got.size(); ++i) {
      Answer want;
      Scheduler own(*model, small_blocks());
      own.add(growing(i, want));
      while (own.step()) {
      }
      expect_same(got[i], want, i);
    }
    EXPECT_EQ(scheduler.stats().blocks_held, 0);
  }
}

TEST(Scheduler, WhatIsKeptForALaterOneLetsTheFirstInLineBegin) {
  const auto model = tiny_for_engine();
  EngineOptions options = small_blocks();
  options.kv_memory = 13 * PagedState::block_bytes(*model, kBlock);
  std::string ends;
  std::vector<Answer> got(4);
  const auto asked = [&](size_t i) {
    EngineRequest r = one_of_several(i == 0 ? 5 : 110, 0, got[i]);  // 110 tokens fill seven blocks
    if (i == 2) r.prompt[0] = 7;
    r.max_new_tokens = i == 0 ? 60 : 2;
    return r;
  };
  const auto run = [&](size_t first, size_t last) {
    Scheduler scheduler(*model, options);
    for (size_t i = first; i < last; ++i) {
      EngineRequest r = asked(i);
      r.on_end = [&ends, i](const EngineEnd&) { ends += "ZRHW"[i]; };
      scheduler.add(std::move(r));
    }
    while (scheduler.step()) {
    }
    EXPECT_EQ(scheduler.stats().blocks_held, 0);
  };
  run(0, 4);
  EXPECT_EQ(ends, "RHWZ");
  const std::vector<Answer> together = std::exchange(got, std::vector<Answer>(4));
  for (size_t i = 0; i < got.size(); ++i) {
    run(i, i + 1);
    expect_same(together[i], got[i], i);
  }
}

TEST(Scheduler, OthersPassThoseWhoWaitForAPromptWhereThereIsRoomForBoth) {
  const auto model = tiny_for_engine();
  const auto running_after_a_step = [&](int64_t sequences) {
    std::vector<Answer> got(4);
    EngineOptions options = small_blocks();
    options.sequences = sequences;
    Scheduler scheduler(*model, options);
    for (size_t i = 0; i < 3; ++i) scheduler.add(one_of_several(43, i, got[i]));
    scheduler.add(request_of(7, got[3]));  // begins otherwise
    scheduler.step();
    const int64_t running = scheduler.stats().running;
    while (scheduler.step()) {
    }
    return running;
  };
  EXPECT_EQ(running_after_a_step(4), 2);
  EXPECT_EQ(running_after_a_step(3), 1);
}

// Of seven blocks four run; with the one that waits, another would fit, but not the spare room for
// five that run.
TEST(Scheduler, WhoPassesLeavesSpareRoomForThoseWhoWait) {
  const auto model = tiny_for_engine();
  EngineOptions options = small_blocks();
  options.kv_memory = 7 * PagedState::block_bytes(*model, kBlock);
  std::vector<Answer> got(6);
  Scheduler scheduler(*model, options);
  for (size_t i = 0; i < got.size(); ++i) {
    EngineRequest r = one_of_several(3, 0, got[i]);
    if (i == 3 || i == 4) r.prompt = prompt_of_length(11);
    r.prompt[0] = i == 4 ? 6 : static_cast<int32_t>(3 + i);
    r.max_new_tokens = 5;
    scheduler.add(std::move(r));
  }
  scheduler.step();
  scheduler.step();
  EXPECT_EQ(got[4].tokens.size(), 2u);
  EXPECT_EQ(got[5].tokens.size(), 0u);
  while (scheduler.step()) {
  }
  EXPECT_EQ(got[5].tokens.size(), 5u);
}

TEST(Scheduler, TellsLogprobsOfThePromptFromTheForwardPass) {
  const auto model = tiny_for_engine();
  Answer answer;
  EngineRequest r = request_of(10, answer);
  const std::vector<int32_t> prompt = r.prompt;
  std::vector<EngineToken> told;
  r.max_new_tokens = 0;
  r.prompt_logprobs = true;
  r.top_logprobs = 2;
  r.on_prompt_token = [&](const EngineToken& token) { told.push_back(token); };
  Scheduler scheduler(*model, small_blocks());
  scheduler.add(std::move(r));
  while (scheduler.step()) {
  }
  ASSERT_EQ(told.size() + 1, prompt.size());
  EXPECT_EQ(answer.end.reason, EndReason::length);
  const auto n = static_cast<int64_t>(prompt.size());
  const Tensor logits =
      model->logits(model->forward(from_values({n}, prompt), Segments::batch(1, n)));
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].id, prompt[i + 1]);
    const std::span<const float> row(logits.row<float>(static_cast<int64_t>(i)),
                                     static_cast<size_t>(logits.cols()));
    const Logprobs want = logprobs(row, model->tokens().usable, prompt[i + 1], 2);
    EXPECT_NEAR(told[i].logprobs.chosen, want.chosen, 1e-4);
    ASSERT_EQ(told[i].logprobs.top.size(), 2u);
    EXPECT_EQ(told[i].logprobs.top[0].first, want.top[0].first);
  }
}

TEST(Scheduler, TellsLogprobsOfThePromptOnceToThoseThatWerePutAside) {
  const auto model = tiny_for_engine();
  struct Told {
    Answer answer;
    std::vector<int32_t> ids;
    std::vector<double> logprobs;
    size_t late = 0;  // told behind the first new token
  };
  const auto asked = [](size_t i, Told& told) {
    EngineRequest r = one_of_several(40, 0, told.answer);
    r.prompt[0] = static_cast<int32_t>(3 + i);
    r.max_new_tokens = 60;
    r.prompt_logprobs = true;
    r.on_prompt_token = [&told](const EngineToken& token) {
      told.ids.push_back(token.id);
      told.logprobs.push_back(token.logprobs.chosen);
      if (!told.answer.tokens.empty()) ++told.late;
    };
    return r;
  };
  EngineOptions options = small_blocks();
  options.kv_memory = 12 * PagedState::block_bytes(*model, kBlock);
  std::vector<Told> got(3);
  Scheduler scheduler(*model, options);
  for (size_t i = 0; i < got.size(); ++i) scheduler.add(asked(i, got[i]));
  while (scheduler.step()) {
  }
  EXPECT_GT(scheduler.stats().preemptions, 0);
  for (size_t i = 0; i < got.size(); ++i) {
    Told want;
    Scheduler own(*model, small_blocks());
    const std::vector<int32_t> prompt = asked(i, want).prompt;
    own.add(asked(i, want));
    while (own.step()) {
    }
    EXPECT_EQ(got[i].ids, std::vector<int32_t>(prompt.begin() + 1, prompt.end()));
    EXPECT_EQ(got[i].logprobs, want.logprobs);
    EXPECT_EQ(got[i].late, 0u);
    expect_same(got[i].answer, want.answer, i);
  }
}

TEST(Scheduler, EndsWhenToldAndFreesAtOnce) {
  const auto model = tiny_for_engine();
  Answer answer, other;
  EngineRequest r = request_of(3, answer);
  r.max_new_tokens = 30;
  r.on_token = [&](const EngineToken& token) {
    answer.tokens.push_back(token.id);
    return answer.tokens.size() < 4;
  };
  Scheduler scheduler(*model, small_blocks());
  scheduler.add(std::move(r));
  const uint64_t waits = scheduler.add(request_of(4, other));
  scheduler.step();
  EXPECT_GT(scheduler.stats().blocks_held, 0);
  scheduler.cancel(waits);
  EXPECT_EQ(other.end.reason, EndReason::cancelled);
  scheduler.cancel(waits);
  scheduler.cancel(99);
  while (scheduler.step()) {
  }
  EXPECT_EQ(answer.end.reason, EndReason::stopped);
  EXPECT_EQ(answer.tokens.size(), 4u);
  EXPECT_EQ(scheduler.stats().blocks_held, 0);
  EXPECT_EQ(scheduler.stats().running, 0);
}

TEST(Scheduler, RefusesWhatItCouldNeverServe) {
  const auto model = tiny_for_engine();
  EngineOptions options = small_blocks();
  options.kv_memory = 4 * PagedState::block_bytes(*model, kBlock);
  Scheduler scheduler(*model, options);
  EXPECT_EQ(scheduler.room_for(60), 5);
  Answer answer;
  const auto message = [&](int64_t prompt, int64_t more) {
    EngineRequest r = request_of(0, answer);
    r.prompt.assign(static_cast<size_t>(prompt), 5);
    r.max_new_tokens = more;
    return message_of([&] { scheduler.add(std::move(r)); });
  };
  EXPECT_EQ(message(60, 5), "no error");
  EXPECT_EQ(message(60, 6),
            "the prompt of 60 tokens and 6 new ones do not fit the KV memory, which holds 64; "
            "shorten the prompt, ask for fewer new tokens, or give the server more KV memory");
  EXPECT_EQ(message(500, 20),
            "the prompt of 500 tokens and 20 new ones do not fit the context of 512; shorten the "
            "prompt or ask for fewer new tokens");
  EXPECT_EQ(message(0, 1), "the prompt is empty; give at least one token");
  EXPECT_FALSE(answer.ended);
  options.kv_memory = 10;
  EXPECT_EQ(message_of([&] { Scheduler(*model, options); }),
            "KV memory: 10 B do not hold a block of 16 tokens, which takes 7.2 KiB; give more");
}

// A likelihood that nobody can read is no answer.
TEST(Scheduler, PromptLogprobsOfABrokenModelFail) {
  const auto model = tiny_for_engine();
  model->parameters().at(0).set(0, std::nan(""));
  Scheduler scheduler(*model, small_blocks());
  Answer broken;
  EngineRequest r = request_of(5, broken);
  r.max_new_tokens = 0;
  r.prompt_logprobs = true;
  int64_t told = 0;
  r.on_prompt_token = [&](const EngineToken& token) { told += std::isnan(token.logprobs.chosen); };
  scheduler.add(std::move(r));
  while (scheduler.step()) {
  }
  ASSERT_TRUE(broken.ended);
  EXPECT_EQ(broken.end.reason, EndReason::failed);
  EXPECT_EQ(broken.end.error, kLogitsNotFinite);
  EXPECT_EQ(told, 0);
  EXPECT_EQ(scheduler.stats().running, 0);
}

}  // namespace
}  // namespace tephra

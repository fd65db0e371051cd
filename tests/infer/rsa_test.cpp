// SPDX-License-Identifier: Apache-2.0
// Markovian RSA against a plain twin that makes one trace after another, and the methods that it
// contains: parallel sampling, Delethink, full RSA.
#include "tephra/infer/rsa.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/models/checkpoint.h"
#include "tephra/text/aggregation.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

constexpr int64_t kSmallBlock = 16;

// A random model that writes letters, and problems for it.
class RsaTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string config = std::string(TEPHRA_SOURCE_DIR) + "/tests/eval/config.json";
    scratch_ = new Scratch;
    write_random_checkpoint(Json::parse(read_file(config), config), config, *scratch_ / "model", 3,
                            RandomInit::lively, {});
    model_ = load_model(*scratch_ / "model", {}).release();
    tokenizer_ = new Tokenizer(
        Tokenizer::load(Path(TEPHRA_GOLDEN_DIR) / "tokenizer-byte-level/tokenizer.json"));
  }
  static void TearDownTestSuite() {
    delete tokenizer_;
    delete model_;
    delete scratch_;
  }

  static EngineOptions engine_options(int64_t sequences = 8) {
    return {.sequences = sequences, .block_tokens = kSmallBlock};
  }
  static RsaOptions small(int64_t candidates = 2) {
    RsaOptions o;
    o.traces = 4;
    o.candidates = candidates;
    o.trace_tokens = 24;
    o.tail_tokens = 10;
    o.sampling.seed = 11;
    o.sampling.temperature = 1.5;
    return o;
  }
  static std::string question(int64_t i) {
    return format("Question {}: what becomes of the ash when it rains on the mountain?", i);
  }
  static RsaProblem problem(int64_t i) {
    return {.prompt = tokenizer_->encode(question(i)),
            .aggregate = [i](std::span<const std::string> tails) {
              return tokenizer_->encode(aggregation_text(question(i), tails));
            }};
  }
  static RsaTree tree_of(int64_t i, const RsaOptions& o) {
    Engine engine(*model_, engine_options());
    Rsa rsa(engine, *tokenizer_, {problem(i)}, o);
    rsa.run();
    return rsa.tree(0);
  }

  // One trace, asked for alone of an engine of its own.
  static std::vector<int32_t> plain_trace(const std::vector<int32_t>& prompt, uint32_t stream,
                                          const RsaOptions& o) {
    std::vector<int32_t> tokens;
    EngineRequest r;
    r.prompt = prompt;
    r.max_new_tokens = o.trace_tokens;
    r.sampling = o.sampling;
    r.stream = stream;
    r.on_token = [&](const EngineToken& t) {
      tokens.push_back(t.id);
      return true;
    };
    Engine engine(*model_, engine_options(1));
    engine.submit(std::move(r));
    engine.wait_until_idle();
    return tokens;
  }
  static std::vector<int32_t> last(const std::vector<int32_t>& ids, int64_t count) {
    const auto kept = std::min<int64_t>(count, static_cast<int64_t>(ids.size()));
    return {ids.end() - kept, ids.end()};
  }
  static void expect_same(const RsaTree& a, const RsaTree& b) {
    ASSERT_EQ(a.rounds.size(), b.rounds.size());
    for (size_t r = 0; r < a.rounds.size(); ++r) {
      for (size_t i = 0; i < a.rounds[r].size(); ++i) {
        EXPECT_EQ(a.rounds[r][i].tokens, b.rounds[r][i].tokens) << r << " " << i;
        EXPECT_EQ(a.rounds[r][i].parents, b.rounds[r][i].parents) << r << " " << i;
        EXPECT_EQ(a.rounds[r][i].text, b.rounds[r][i].text) << r << " " << i;
      }
    }
  }

  inline static Scratch* scratch_ = nullptr;
  inline static Model* model_ = nullptr;
  inline static Tokenizer* tokenizer_ = nullptr;
};

TEST_F(RsaTest, IsWhatAPlainLoopOverItsTracesGives) {
  const RsaOptions o = small();
  const RsaTree tree = tree_of(1, o);
  ASSERT_EQ(tree.rounds.size(), 3u);
  const RsaProblem p = problem(1);
  const uint32_t draws = draws_of(p.prompt);
  std::vector<std::vector<int32_t>> before;
  for (int64_t round = 0; round <= o.rounds; ++round) {
    std::vector<std::vector<int32_t>> now;
    for (int64_t i = 0; i < o.traces; ++i) {
      std::vector<int32_t> prompt = p.prompt;
      if (round > 0) {
        std::vector<std::string> tails;
        for (const int64_t parent : draw_parents(o, draws, round, i)) {
          tails.push_back(tail_text(*tokenizer_, before[static_cast<size_t>(parent)], 10));
        }
        prompt = tokenizer_->encode(aggregation_text(question(1), tails));
      }
      now.push_back(plain_trace(prompt, draws + static_cast<uint32_t>(round * 4 + i), o));
      const RsaTrace& got = tree.rounds[static_cast<size_t>(round)][static_cast<size_t>(i)];
      EXPECT_EQ(got.tokens, now.back()) << round << " " << i;
      EXPECT_EQ(got.tail_ids, last(now.back(), 10));
      EXPECT_EQ(got.usage.prompt_tokens, static_cast<int64_t>(prompt.size()));
    }
    before = now;
  }
}

TEST_F(RsaTest, WholeRoundsAreThereBeforeTheProblemIsFinished) {
  Engine engine(*model_, engine_options());
  Rsa rsa(engine, *tokenizer_, {problem(1), problem(2)}, small());
  EXPECT_TRUE(rsa.whole_rounds(0).empty());
  for (int64_t of_first_round = 0; of_first_round < 4;) {
    const auto ended = rsa.next(10);
    ASSERT_TRUE(ended);
    if (ended->problem == 0) ++of_first_round;
  }
  EXPECT_EQ(rsa.tree(0).rounds.size(), 2u) << "the second round is under way";
  ASSERT_EQ(rsa.whole_rounds(0).size(), 1u);
  const RsaTree kept{.rounds = {rsa.whole_rounds(0)[0]}};
  rsa.run();
  expect_same(kept, {.rounds = {rsa.tree(0).rounds[0]}});
  EXPECT_EQ(rsa.whole_rounds(1).size(), 3u);
  expect_same(rsa.take(1), tree_of(2, small()));
  EXPECT_TRUE(rsa.whole_rounds(1).empty());
}

TEST_F(RsaTest, GoesOnWithWholeRoundsToTheSameTree) {
  RsaOptions chains = small(1);
  chains.stop = {"e", "a", "i", "o"};  // some rest
  for (const RsaOptions& o : {small(), chains}) {
    const RsaTree whole = tree_of(1, o);
    for (const size_t rounds : {1, 2}) {
      RsaProblem begun = problem(1);
      for (size_t r = 0; r < rounds; ++r) {
        begun.begun.rounds.push_back(whole.rounds[r]);
        for (RsaTrace& t : begun.begun.rounds[r]) {  // what a later round does not need
          t.tokens = {};
          if (!o.continues()) t.tail_ids = {};
        }
      }
      Engine engine(*model_, engine_options());
      Rsa rsa(engine, *tokenizer_, {problem(2), begun}, o);
      EXPECT_EQ(rsa.whole_rounds(1).size(), rounds);
      rsa.run();
      const RsaTree& made = rsa.tree(1);
      expect_same(
          {.rounds = {made.rounds.begin() + static_cast<int64_t>(rounds), made.rounds.end()}},
          {.rounds = {whole.rounds.begin() + static_cast<int64_t>(rounds), whole.rounds.end()}});
      EXPECT_EQ(made.rounds[2][3].tail_ids, whole.rounds[2][3].tail_ids);
    }
  }
}

TEST_F(RsaTest, WithoutRoundsIsParallelSampling) {
  RsaOptions o = small();
  o.rounds = 0;
  const RsaTree tree = tree_of(2, o);
  ASSERT_EQ(tree.rounds.size(), 1u);
  const std::vector<int32_t> prompt = problem(2).prompt;
  std::set<std::vector<int32_t>> different;
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(tree.rounds[0][i].tokens, plain_trace(prompt, draws_of(prompt) + i, o));
    EXPECT_TRUE(tree.rounds[0][i].parents.empty());
    different.insert(tree.rounds[0][i].tokens);
  }
  EXPECT_EQ(different.size(), 4u);
  // The first round does not know how many follow.
  EXPECT_EQ(tree_of(2, small()).rounds[0][3].tokens, tree.rounds[0][3].tokens);
}

TEST_F(RsaTest, WithOneCandidateIsDelethink) {
  const RsaOptions o = small(1);
  const RsaTree tree = tree_of(3, o);
  const std::vector<int32_t> prompt = problem(3).prompt;
  for (uint32_t chain = 0; chain < 4; ++chain) {
    std::vector<int32_t> carried;
    for (uint32_t round = 0; round < 3; ++round) {
      std::vector<int32_t> whole = prompt;
      whole.insert(whole.end(), carried.begin(), carried.end());
      const std::vector<int32_t> more = plain_trace(whole, draws_of(prompt) + round * 4 + chain, o);
      const RsaTrace& got = tree.rounds[round][chain];
      EXPECT_EQ(got.tokens, more) << round << " " << chain;
      EXPECT_EQ(got.parents, round > 0 ? std::vector<int64_t>{chain} : std::vector<int64_t>{});
      carried.insert(carried.end(), more.begin(), more.end());
      EXPECT_EQ(got.text, tokenizer_->decode(carried));  // what it goes on with, and what it adds
      carried = last(carried, o.tail_tokens);
      EXPECT_EQ(got.tail_ids, carried);
    }
  }
}

TEST_F(RsaTest, AChainThatHasEndedRests) {
  RsaOptions o = small(1);
  o.stop = {"e", "a", "i", "o", "s", "t", "n", "r", " "};  // some traces meet one soon
  const RsaTree tree = tree_of(4, o);
  int rested = 0;
  for (size_t round = 1; round < 3; ++round) {
    for (size_t i = 0; i < 4; ++i) {
      const RsaTrace& before = tree.rounds[round - 1][i];
      const RsaTrace& t = tree.rounds[round][i];
      EXPECT_EQ(t.rested, before.end != EndReason::length);
      if (!t.rested) continue;
      ++rested;
      EXPECT_EQ(t.text, before.text);
      EXPECT_EQ(t.end, before.end);
      EXPECT_TRUE(t.tokens.empty());
      EXPECT_EQ(t.usage.new_tokens, 0);
    }
  }
  EXPECT_GT(rested, 0);
}

TEST_F(RsaTest, WithTailsAsLongAsTracesIsFullRsa) {
  RsaOptions o = small();
  o.tail_tokens = o.trace_tokens;
  const RsaTree tree = tree_of(5, o);
  int whole_texts = 0;  // but for those of broken bytes, whose text has more tokens
  for (const auto& round : tree.rounds) {
    for (const RsaTrace& t : round) {
      EXPECT_EQ(t.tail_ids, t.tokens);
      const std::string text = tokenizer_->decode(t.tokens, {.keep_special = false});
      if (tokenizer_->encode(text).size() > 24) continue;
      ++whole_texts;
      EXPECT_EQ(t.tail, text);
    }
  }
  EXPECT_GT(whole_texts, 0);
  std::vector<std::string> whole;
  for (const int64_t parent : tree.rounds[1][2].parents) {
    whole.push_back(tree.rounds[0][static_cast<size_t>(parent)].tail);
  }
  const auto prompt = tokenizer_->encode(aggregation_text(question(5), whole));
  EXPECT_EQ(tree.rounds[1][2].usage.prompt_tokens, static_cast<int64_t>(prompt.size()));
}

// A random model writes bytes that are no characters.
TEST_F(RsaTest, PromptsStayWithinTheProblemAndItsTails) {
  RsaOptions o = small();
  o.trace_tokens = 64;
  o.tail_tokens = 31;
  int64_t broken = 0;
  for (const int64_t i : {1, 2, 3}) {
    const RsaTree tree = tree_of(i, o);
    for (size_t r = 0; r < tree.rounds.size(); ++r) {
      for (const RsaTrace& t : tree.rounds[r]) {
        if (t.text.find("\xef\xbf\xbd") != t.text.npos) ++broken;
        EXPECT_FALSE(t.tail.starts_with("\xef\xbf\xbd")) << t.tail;
        EXPECT_TRUE(t.text.ends_with(t.tail)) << t.text << "\n" << t.tail;
        EXPECT_LE(t.usage.prompt_tokens, prompt_tokens_without_tails(problem(i), o) + 2 * 31);
      }
    }
  }
  EXPECT_GT(broken, 0);
}

TEST_F(RsaTest, GivesOneSeedOneTreeWhateverElseIsDone) {
  const RsaTree alone = tree_of(6, small());
  const int usual = num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    Engine engine(*model_, engine_options(5));
    EngineRequest other;
    other.prompt = {5, 6, 7};
    other.max_new_tokens = 200;
    other.stop_at_eos = false;
    engine.submit(std::move(other));
    std::vector<RsaProblem> problems;
    for (const int64_t i : {7, 8, 6, 9}) problems.push_back(problem(i));
    RsaOptions o = small();
    o.problems = threads;
    Rsa rsa(engine, *tokenizer_, std::move(problems), o);
    rsa.run();
    expect_same(rsa.tree(2), alone);
    EXPECT_NE(rsa.tree(0).rounds[0][0].tokens, alone.rounds[0][0].tokens);
  }
  set_num_threads(usual);
  RsaOptions other_seed = small();
  other_seed.sampling.seed = 12;
  EXPECT_NE(tree_of(6, other_seed).rounds[0][0].tokens, alone.rounds[0][0].tokens);
}

TEST_F(RsaTest, CountsWhatTheEngineCounts) {
  Engine engine(*model_, engine_options());
  Rsa rsa(engine, *tokenizer_, {problem(1), problem(2)}, small());
  std::set<std::tuple<size_t, int64_t, int64_t>> ended;
  while (!rsa.finished()) {
    if (const auto e = rsa.next(1)) {
      EXPECT_TRUE(ended.insert({e->problem, e->round, e->trace}).second);
    }
  }
  EXPECT_EQ(ended.size(), 2u * 3 * 4);
  EXPECT_TRUE(rsa.finished(0) && rsa.finished(1));
  engine.wait_until_idle();
  RsaTokens sum = tokens_of(rsa.tree(0));
  sum += tokens_of(rsa.tree(1));
  const EngineStats stats = engine.stats();
  EXPECT_EQ(sum.prompt, stats.prompt_tokens);
  EXPECT_EQ(sum.cached, stats.cached_tokens);
  EXPECT_EQ(sum.generated, stats.new_tokens);
  EXPECT_EQ(rsa.new_tokens(), stats.new_tokens);
  // Prompts of a round begin with the same question: all but the first find its blocks.
  const int64_t shared = static_cast<int64_t>(problem(1).prompt.size()) / kSmallBlock * kSmallBlock;
  ASSERT_GT(shared, 0);
  EXPECT_GE(tokens_of(std::span(rsa.tree(0).rounds[1])).cached, 3 * shared);
}

// A problem shorter than a block of the usual size: its traces begin where the first has read it.
TEST_F(RsaTest, ReadsAShortProblemOnceForAllTraces) {
  RsaOptions o = small(4);
  o.traces = 16;
  for (const int64_t sequences : {16, 3}) {
    Engine engine(*model_, {.sequences = sequences});
    Rsa rsa(engine, *tokenizer_, {problem(1), problem(2)}, o);
    rsa.run();
    for (const size_t i : {0u, 1u}) {
      const RsaTokens first = tokens_of(std::span(rsa.tree(i).rounds[0]));
      EXPECT_EQ(first.prompt, 16 * std::ssize(problem(int64_t(i) + 1).prompt));
      EXPECT_EQ(first.cached * 16, first.prompt * 15) << sequences << " side by side";
    }
  }
}

TEST_F(RsaTest, DrawsDifferentParentsAllAlikeOften) {
  RsaOptions o;
  o.traces = 16;
  o.candidates = 4;
  std::vector<int64_t> counts(16);
  for (uint32_t p = 0; p < 100; ++p) {
    for (int64_t i = 0; i < 16; ++i) {
      const std::vector<int64_t> parents = draw_parents(o, p, 1, i);
      EXPECT_EQ(std::set<int64_t>(parents.begin(), parents.end()).size(), 4u);
      for (const int64_t parent : parents) ++counts[static_cast<size_t>(parent)];
    }
  }
  // 400 each, with a deviation of sqrt(1600 / 4 * 3 / 4) = 17.
  for (const int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 400, 5 * 17.4);
  EXPECT_EQ(draw_parents(o, 7, 1, 3), draw_parents(o, 7, 1, 3));
  EXPECT_NE(draw_parents(o, 7, 1, 3), draw_parents(o, 7, 2, 3));
  EXPECT_NE(draw_parents(o, 7, 1, 3), draw_parents(o, 8, 1, 3));
}

TEST_F(RsaTest, StopsWhenItIsLetGoAndSaysWhenTheEngineIsStopped) {
  Engine engine(*model_, engine_options());
  RsaOptions o = small();
  o.trace_tokens = 1000;
  {
    Rsa rsa(engine, *tokenizer_, {problem(1)}, o);
    while (rsa.new_tokens() < 8) std::this_thread::yield();
  }
  engine.wait_until_idle();
  EXPECT_GE(engine.stats().ended[static_cast<int>(EndReason::cancelled)], 1);
  EXPECT_EQ(engine.stats().requests, 4);  // no round followed

  Rsa rsa(engine, *tokenizer_, {problem(1)}, o);
  while (rsa.new_tokens() < 8) std::this_thread::yield();
  engine.cancel_all();
  const Error error = error_of([&] { rsa.run(); });
  EXPECT_EQ(error.fault(), Fault::interrupted);
}

TEST_F(RsaTest, ABrokenModelIsAFaultOfItsFiles) {
  const auto model = load_model(*scratch_ / "model", {});
  model->parameters().at(0).set(0, std::nan(""));
  Engine engine(*model, engine_options());
  Rsa rsa(engine, *tokenizer_, {problem(1)}, small());
  const Error error = error_of([&] { rsa.run(); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_NE(std::string(error.what()).find(kLogitsNotFinite), std::string::npos) << error.what();
}

TEST_F(RsaTest, SaysWhatMakesNoSense) {
  const auto refused = [](auto change) {
    RsaOptions o = small();
    change(o);
    const Error error = error_of([&] { check_rsa(o); });
    EXPECT_EQ(error.fault(), Fault::usage);
    return std::string(error.what());
  };
  EXPECT_EQ(refused([](RsaOptions& o) { o.candidates = 5; }),
            "RSA: expected 1 to 4 candidates, as many as there are traces, got 5");
  EXPECT_EQ(refused([](RsaOptions& o) { o.tail_tokens = 25; }),
            "RSA: expected tails of 1 to 24 tokens, as many as a trace has, got 25");
  EXPECT_EQ(refused([](RsaOptions& o) { o.sampling.temperature = 0; }),
            "RSA: 4 traces would all be the same at temperature 0; give a temperature");
  EXPECT_EQ(refused([](RsaOptions& o) { o.rounds = -1; }),
            "RSA: expected 0 or more rounds, got -1");

  Engine engine(*model_, engine_options());
  RsaOptions o = small();
  o.trace_tokens = 1900;
  o.tail_tokens = 200;
  const Error error = error_of([&] { Rsa rsa(engine, *tokenizer_, {problem(1)}, o); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_NE(std::string(error.what()).find("2 tails of 200) and a trace of 1900 do not fit"),
            std::string::npos)
      << error.what();
  EXPECT_EQ(engine.stats().requests, 0);
}

TEST_F(RsaTest, FitsTracesAndTailsIntoTheContext) {
  RsaOptions o;
  const RsaOptions wide = fitted(o, 131072, 200);
  EXPECT_EQ(wide.trace_tokens, 16384);
  EXPECT_EQ(wide.tail_tokens, 4096);
  for (const int64_t room : {30, 100, 1024, 20000, 40000}) {
    const RsaOptions f = fitted(o, room, 20);
    EXPECT_GE(f.tail_tokens, 1);
    EXPECT_LE(f.tail_tokens, (f.trace_tokens + 1) / 2);
    EXPECT_LE(20 + 4 * f.tail_tokens + f.trace_tokens, room) << room;
    EXPECT_GE(20 + 4 * f.tail_tokens + f.trace_tokens, std::min<int64_t>(room, 32000) - 8) << room;
  }
  o.rounds = 0;
  EXPECT_EQ(fitted(o, 1000, 100).trace_tokens, 900);
  o.trace_tokens = 100;
  EXPECT_EQ(fitted(o, 1000, 100).tail_tokens, 50);
}

}  // namespace
}  // namespace tephra

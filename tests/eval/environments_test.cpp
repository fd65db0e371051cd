// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/environments.h"

#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "tephra/base/signals.h"
#include "tephra/eval/report.h"
#include "tests/eval/scripted_model.h"
#include "tests/support/error_of.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

Tokenizer byte_level() { return Tokenizer::load(Path(TEPHRA_GOLDEN_DIR) / "tokenizer-byte-level"); }

std::string names_of(std::string_view list) {
  std::string names;
  for (const EnvironmentLevel& at : parse_environments(list)) {
    names += format("{}{}:{}", names.empty() ? "" : " ", at.environment->name, at.level);
  }
  return names;
}

TEST(Environments, AreNamedByKindAndLevels) {
  EXPECT_EQ(names_of("addition:1-3,sorting:2"), "addition:1 addition:2 addition:3 sorting:2");
  EXPECT_EQ(names_of(" dates , maze : 4 - 5"), "dates:1 maze:4 maze:5");
  EXPECT_EQ(parse_environments("all:2-3").size(), 2 * environments().size());

  const auto refused = [](const char* list) {
    const Error error = error_of([&] { parse_environments(list); });
    EXPECT_EQ(error.fault(), Fault::usage);
    return std::string(error.what());
  };
  EXPECT_EQ(refused("additon:1"), "there is no environment 'additon'; did you mean addition?");
  const std::string levels =
      "expected KIND:LEVEL or KIND:LOW-HIGH with levels from 1 on, as in addition:1-3";
  for (const char* item : {"addition:0", "addition:3-1", "addition:x", "addition:", "addition:1-",
                           "addition:1-9999"}) {
    EXPECT_EQ(refused(item), format("'{}': {}", item, levels));
  }
  EXPECT_EQ(refused("addition,"),
            "'addition,': expected a list of environments, as in addition:1-3,sorting:2");
  EXPECT_EQ(refused("addition:1-2,addition:2"), "addition at level 2 is named twice");
}

EnvironmentEvalOptions few_tasks() {
  EnvironmentEvalOptions options;
  options.levels = parse_environments("addition:1-2,sorting:2");
  options.tasks = 20;
  options.seed = 3;
  return options;
}

TEST(Environments, ScoreWhatTheModelAnswersByKindAndLevel) {
  const Tokenizer tokenizer = byte_level();
  ScriptedModel model(tokenizer.vocab_size());
  const auto before = evaluate_environments(model, tokenizer, few_tasks());
  ASSERT_EQ(before.size(), 3u);
  EXPECT_EQ(before[0].score.accuracy, 0);
  EXPECT_EQ(before[0].score.cut, 0);

  // Of each level it learns the first 5, 10, 15 answers, and for the others a wrong one.
  for (size_t level = 0; level < 3; ++level) {
    for (size_t i = 0; i < 20; ++i) {
      const Problem& p = before[level].problems[i];
      const bool right = i < 5 * (level + 1);
      model.learn(tokenizer.encode(p.prompt, AddSpecial::before),
                  tokenizer.encode("some steps\nAnswer: " + (right ? p.answer : "no")));
    }
  }
  const auto after = evaluate_environments(model, tokenizer, few_tasks());
  for (size_t level = 0; level < 3; ++level) {
    const Score& s = after[level].score;
    EXPECT_EQ(s.problems, 20);
    EXPECT_EQ(s.right, static_cast<int64_t>(5 * (level + 1)));
    EXPECT_EQ(after[level].problems[19].attempts[0].given, "no");
    EXPECT_EQ(after[level].problems[0].attempts[0].finish, FinishReason::eos);
  }
  EXPECT_EQ(overall(after).right, 30);
  EXPECT_EQ(overall(after).problems, 60);
}

TEST(Environments, AskDifferentHeldOutTasksThatTheSeedDecides) {
  const Tokenizer tokenizer = byte_level();
  ScriptedModel model(tokenizer.vocab_size());
  EnvironmentEvalOptions options = few_tasks();
  const auto first = evaluate_environments(model, tokenizer, options);
  std::set<std::string> prompts;
  for (const Problem& p : first[0].problems) prompts.insert(p.prompt);
  EXPECT_EQ(prompts.size(), 20u);
  for (const Problem& p : first[0].problems) {
    // Added in any order it is one problem, so the numbers tell the split.
    Task task{.prompt = p.prompt.substr(0, p.prompt.size() - 1), .answer = p.answer};
    int64_t a = 0, b = 0;
    ASSERT_EQ(std::sscanf(task.prompt.c_str(), "What is %ld + %ld?", &a, &b), 2);
    const std::string x = std::to_string(a), y = std::to_string(b);
    task.content = std::min(x, y) + " " + std::max(x, y);
    EXPECT_EQ(split_of(find_environment("addition"), task), Split::held_out) << task.prompt;
  }
  EXPECT_EQ(evaluate_environments(model, tokenizer, options)[0].problems[7].prompt,
            first[0].problems[7].prompt);
  options.seed = 4;
  int64_t shared = 0;
  const auto second = evaluate_environments(model, tokenizer, options);
  for (const Problem& p : second[0].problems) {
    shared += prompts.contains(p.prompt) ? 1 : 0;
  }
  EXPECT_LT(shared, 5);
}

TEST(Environments, SayWhenALevelHasFewerTasksThanAskedFor) {
  const Tokenizer tokenizer = byte_level();
  ScriptedModel model(tokenizer.vocab_size());
  EnvironmentEvalOptions options;
  options.levels = parse_environments("comparison:1");
  options.tasks = 5000;
  const Score s = evaluate_environments(model, tokenizer, options)[0].score;
  EXPECT_GT(s.problems, 50);
  EXPECT_LT(s.problems, 5000);
}

// Of few different ones, however many are asked for, and of many until somebody stops it.
TEST(Environments, AreDrawnInAnEndingTime) {
  EnvironmentEvalOptions options;
  options.tasks = int64_t{1} << 40;
  const auto drawn = [&](const char* name) {
    return draw_tasks(parse_environments(name)[0], options).size();
  };
  const size_t all = drawn("comparison:1");
  EXPECT_GT(all, 50u);
  EXPECT_LT(all, 5000u);
  install_signal_handlers();
  std::raise(SIGINT);
  EXPECT_EQ(error_of([&] { drawn("addition:9"); }).fault(), Fault::interrupted);
  EXPECT_TRUE(take_interrupt());
}

TEST(Environments, StopALongAnswerAtTwiceItsOwnSolution) {
  const Tokenizer tokenizer = byte_level();
  ScriptedModel model(tokenizer.vocab_size());
  EnvironmentEvalOptions options = few_tasks();
  const auto before = evaluate_environments(model, tokenizer, options);
  const Problem& p = before[0].problems[0];
  model.learn(tokenizer.encode(p.prompt, AddSpecial::before), std::vector<int32_t>(1500, 48));
  const Score cut = evaluate_environments(model, tokenizer, options)[0].score;
  EXPECT_EQ(cut.cut, 1);
  EXPECT_LT(cut.mean_tokens * 20, 300);
  EXPECT_EQ(p.max_new_tokens % 2, 0);
  options.max_new_tokens = 7;
  EXPECT_EQ(evaluate_environments(model, tokenizer, options)[0].score.mean_tokens * 20, 7);
}

TEST(Environments, AreToldAsATableAndAsJson) {
  const Tokenizer tokenizer = byte_level();
  ScriptedModel model(tokenizer.vocab_size());
  EnvironmentEvalOptions options = few_tasks();
  options.solve.samples = 2;
  options.solve.sampling.temperature = 0.5;
  options.ks = {1, 2};
  const auto scores = evaluate_environments(model, tokenizer, options);
  EXPECT_EQ(environment_table(scores),
            "kind      level  right of  avg@2  95 % interval  pass@2  tokens  cut\n"
            "addition      1      0/40  0.0 %    0.0 to 16.1   0.0 %     0.0    0\n"
            "addition      2      0/40  0.0 %    0.0 to 16.1   0.0 %     0.0    0\n"
            "sorting       2      0/40  0.0 %    0.0 to 16.1   0.0 %     0.0    0\n"
            "all                 0/120  0.0 %     0.0 to 6.0   0.0 %     0.0    0\n");
  const Json json = to_json(std::span<const EnvironmentScore>(scores));
  EXPECT_EQ(json.find("rows")->array().size(), 3u);
  EXPECT_EQ(json.find("rows")->array()[2].find("kind")->string(), "sorting");
  EXPECT_EQ(json.find("overall")->find("problems")->integer(), 60);
  EXPECT_EQ(json.find("overall")->find("pass_at")->find("2")->number(), 0);
}

}  // namespace
}  // namespace tephra

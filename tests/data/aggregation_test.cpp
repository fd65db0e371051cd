// SPDX-License-Identifier: Apache-2.0
// Tasks with attempts at them in the prompt.
#include "tephra/data/environments/aggregation.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tephra/data/environment_source.h"
#include "tephra/text/byte_tokenizer.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

template <class Body>
void for_each_origin(Body body) {
  for (const Environment& environment : environments()) {
    for (const int64_t level : {1, 3, 8}) {
      for (uint64_t seed = 0; seed < 12; ++seed) {
        const Split split = seed % 2 == 0 ? Split::train : Split::held_out;
        body(TaskOrigin{&environment, level, seed, split});
      }
    }
  }
}

TEST(AggregationForm, KeepsProblemSolutionAndSplit) {
  for_each_origin([](const TaskOrigin& o) {
    const Task task = generate(*o.environment, o.level, o.seed, o.split);
    const Task posed = with_attempts(o, task, {.candidates = 3, .tail = {}});
    EXPECT_TRUE(posed.prompt.starts_with(task.prompt + "\nEnds of 3 attempts"));
    EXPECT_EQ(solution(posed), solution(task));
    EXPECT_EQ(split_of(*o.environment, posed), o.split);
    EXPECT_TRUE(verify(*o.environment, posed, solution(posed)));
    // A pure function.
    EXPECT_EQ(with_attempts(o, task, {.candidates = 3, .tail = {}}).prompt, posed.prompt);
  });
}

TEST(AggregationForm, HasFromNoneToAllAttemptsRight) {
  std::map<int64_t, int64_t> by_right;
  int64_t cut = 0, all = 0;
  for_each_origin([&](const TaskOrigin& o) {
    const Task task = generate(*o.environment, o.level, o.seed, o.split);
    int64_t right = 0;
    for (const std::string& attempt : attempts_at(o, task, 4)) {
      EXPECT_FALSE(attempt.empty());
      const bool answers = attempt.find("Answer:") != std::string::npos;
      right += answers && verify(*o.environment, task, attempt) ? 1 : 0;
      cut += answers ? 0 : 1;
      ++all;
    }
    ++by_right[right];
  });
  for (int64_t right = 0; right <= 4; ++right) EXPECT_GT(by_right[right], 20) << right;
  EXPECT_GT(cut, all / 20);
  EXPECT_LT(cut, all / 4);
}

// Attempts that solve another problem must not bring held-out problems into training.
TEST(AggregationForm, NeverShowsASolutionOfTheOtherSplit) {
  const Environment& kind = find_environment("multiplication");  // steps name both factors
  std::set<std::string> held_out;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    held_out.insert(solution(generate(kind, 1, seed, Split::held_out)));
  }
  int64_t of_others = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const TaskOrigin o{&kind, 1, seed, Split::train};
    const Task task = generate(kind, 1, seed, Split::train);
    for (const std::string& attempt : attempts_at(o, task, 4)) {
      EXPECT_FALSE(held_out.contains(attempt)) << task.prompt << "\n" << attempt;
    }
    // The same problems, held out, do show them: the test can tell.
    const TaskOrigin h{&kind, 1, seed, Split::held_out};
    const Task other = generate(kind, 1, seed, Split::held_out);
    for (const std::string& attempt : attempts_at(h, other, 4)) {
      of_others += held_out.contains(attempt) ? 1 : 0;
    }
  }
  EXPECT_GT(of_others, 300);
}

std::shared_ptr<const Tokenizer> byte_tokens() {
  const Scratch folder;
  write_byte_tokenizer(folder.path());  // with the files that say what ends a text
  return std::make_shared<const Tokenizer>(Tokenizer::load(folder.path()));
}

std::string text_of(const Tokenizer& tokenizer, const Sample& sample) {
  return tokenizer.decode(sample.inputs, {.keep_special = true});
}

TEST(AggregationForm, IsMixedIntoASourceByItsShare) {
  const auto tokenizer = byte_tokens();
  const auto shown = [&](double share, Split split) {
    EnvironmentOptions options;
    options.kinds = {"addition"};
    options.max_level = 2;
    options.split = split;
    options.aggregation = share;
    options.tail_tokens = 24;
    const EnvironmentSource source("tasks", options, tokenizer, 7);
    std::string text;
    for (int64_t i = 0; i < 20; ++i) text += text_of(*tokenizer, source.sample(i, 2048));
    EXPECT_EQ(text_of(*tokenizer, source.sample(3, 512)),
              text_of(*tokenizer, source.sample(3, 512)));
    return text;
  };
  const auto count = [](const std::string& text, const std::string& what) {
    int64_t found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++found;
    return static_cast<double>(found);
  };
  EXPECT_EQ(count(shown(0, Split::train), "attempts at this"), 0);
  for (const Split split : {Split::train, Split::held_out}) {
    const std::string half = shown(0.5, split);
    EXPECT_NEAR(count(half, "attempts at this") / count(half, "What is"), 0.5, 0.1);
  }
  const std::string every = shown(1, Split::train);
  EXPECT_NEAR(count(every, "attempts at this") / count(every, "What is"), 1, 0.05);
  // The loss is on solutions alone, so none of an attempt is learnt.
  EnvironmentOptions options;
  options.kinds = {"reversing"};
  options.aggregation = 1;
  const EnvironmentSource source("tasks", options, tokenizer, 7);
  const Sample sample = source.sample(0, 1024);
  std::string learnt;
  for (size_t i = 0; i < sample.targets.size(); ++i) {
    if (sample.targets[i] != kNoTarget)
      learnt += tokenizer->decode(std::span(&sample.targets[i], 1));
  }
  EXPECT_EQ(learnt.find("attempts"), std::string::npos);
  EXPECT_NE(learnt.find("Answer:"), std::string::npos);
  EXPECT_NE(source.identity().find("aggregation 1 of 4 tails of 64"), std::string::npos);
}

}  // namespace
}  // namespace tephra

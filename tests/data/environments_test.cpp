// SPDX-License-Identifier: Apache-2.0
// What holds for every environment, at every level.
#include <gtest/gtest.h>

#include <set>

#include "tephra/base/files.h"
#include "tephra/data/environments/environment.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

constexpr int64_t kLevels[] = {1, 2, 3, 4, 5, 7, 10, 16, 23, 30};
constexpr uint64_t kSeeds = 12;

// Calls body(environment, level, split, task) for many tasks.
template <class Body>
void for_each_task(Body body) {
  for (const Environment& environment : environments()) {
    for (const int64_t level : kLevels) {
      for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        for (const Split split : {Split::train, Split::held_out}) {
          body(environment, level, split, generate(environment, level, seed, split));
        }
      }
    }
  }
}

// The answer with one character changed, dropped or added.
std::vector<std::string> mutations(const std::string& answer) {
  std::vector<std::string> all{answer + "1", "", "Answer:"};
  for (size_t i = 0; i < answer.size(); ++i) {
    if (answer[i] == ' ' || answer[i] == ',') continue;
    std::string changed = answer;
    changed[i] = answer[i] == '3' ? '8' : '3';
    all.push_back(changed);
  }
  return all;
}

TEST(Environments, AreManyAndFoundByName) {
  EXPECT_GE(environments().size(), 15u);
  std::set<std::string> names;
  for (const Environment& environment : environments()) {
    EXPECT_TRUE(names.insert(environment.name).second) << environment.name;
    EXPECT_EQ(&find_environment(environment.name), &environment);
  }
  const Error error = error_of([] { find_environment("adition"); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_STREQ(error.what(), "there is no environment 'adition'; did you mean addition?");
}

TEST(Environments, AcceptTheirOwnAnswersAndNoOthers) {
  for_each_task([](const Environment& environment, int64_t level, Split, const Task& task) {
    SCOPED_TRACE(format("{} level {}: {}", environment.name, level, task.prompt));
    EXPECT_TRUE(verify(environment, task, task.answer)) << task.answer;
    EXPECT_TRUE(verify(environment, task, solution(task)));
    EXPECT_TRUE(verify(environment, task, "  " + task.answer + "\n"));
    for (const std::string& wrong : mutations(task.answer)) {
      EXPECT_FALSE(verify(environment, task, wrong)) << wrong << " for " << task.answer;
      EXPECT_FALSE(verify(environment, task, solution(task) + "\nAnswer: " + wrong)) << wrong;
    }
  });
}

TEST(Environments, ReasonInLinesThatEndInTheAnswer) {
  for_each_task([](const Environment& environment, int64_t, Split, const Task& task) {
    EXPECT_FALSE(task.reasoning.empty()) << environment.name;
    EXPECT_TRUE(solution(task).ends_with("\nAnswer: " + task.answer)) << environment.name;
    for (const std::string* text : {&task.prompt, &task.reasoning, &task.answer}) {
      EXPECT_EQ(text->find("\n\n"), std::string::npos) << environment.name;
      EXPECT_EQ(text->find("Answer:"), std::string::npos) << environment.name;
      EXPECT_NE(text->back(), '\n') << environment.name;
    }
  });
}

TEST(Environments, NeverShareAProblemBetweenTheSplits) {
  std::set<std::string> train, held_out;
  for_each_task([&](const Environment& environment, int64_t, Split split, const Task& task) {
    EXPECT_EQ(split_of(environment, task), split);
    const std::string& content = task.content.empty() ? task.prompt : task.content;
    (split == Split::train ? train : held_out).insert(environment.name + ("\n" + content));
  });
  for (const std::string& content : held_out) EXPECT_FALSE(train.contains(content)) << content;
}

TEST(Environments, HoldOneProblemInTenOut) {
  for (const Environment& environment : environments()) {
    int held_out = 0;
    std::set<std::string> prompts;
    for (uint32_t seed = 0; seed < 2000; ++seed) {
      Draw draw({seed, 1, 2}, 0);
      const Task task = environment.make(draw, 6);
      if (prompts.insert(task.prompt).second && split_of(environment, task) == Split::held_out) {
        ++held_out;
      }
    }
    const double share = held_out / static_cast<double>(prompts.size());
    EXPECT_NEAR(share, 0.1, 0.04) << environment.name << " of " << prompts.size();
  }
}

TEST(Environments, HaveManyProblemsAtEveryLevel) {
  for (const Environment& environment : environments()) {
    std::set<std::string> prompts;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      prompts.insert(generate(environment, 1, seed, Split::held_out).prompt);
    }
    EXPECT_GE(prompts.size(), 30u) << environment.name;
  }
}

TEST(Environments, GetHarderWithoutEnd) {
  for (const Environment& environment : environments()) {
    size_t easy = 0, hard = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      easy += solution(generate(environment, 1, seed, Split::train)).size();
      hard += solution(generate(environment, 40, seed, Split::train)).size();
    }
    EXPECT_GT(hard, 2 * easy) << environment.name;
    const Task far = generate(environment, 150, 1, Split::held_out);
    EXPECT_TRUE(verify(environment, far, solution(far))) << environment.name;
  }
  EXPECT_EQ(error_of([] { generate(environments()[0], 0, 1, Split::train); }).fault(),
            Fault::usage);
}

// A changed generator moves problems between the splits: then old runs may not be compared with
// new ones, so a change must be seen and meant.
TEST(Environments, KeepTheirTasks) {
  uint64_t hash = 14695981039346656037ull;
  for_each_task([&](const Environment& environment, int64_t, Split, const Task& task) {
    for (const char c : environment.name + ("\n" + task.prompt + "\n" + solution(task))) {
      hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
    }
  });
  EXPECT_EQ(hash, 10267917741498207613ull);
}

TEST(Environments, AreDocumented) {
  const std::string page = read_file(TEPHRA_SOURCE_DIR "/docs/environments.md");
  for (const Environment& environment : environments()) {
    const std::string row = format("| {} | {} |", environment.name, environment.summary);
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "tephra/data/environment_source.h"
#include "tephra/data/loader.h"
#include "tephra/data/prefetch.h"
#include "tephra/data/shard_source.h"
#include "tephra/data/source_config.h"
#include "tests/data/test_tokenizer.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

// Documents of 1, 2, 3, ... tokens; token i of the shard is i, so that a sample shows its place.
std::shared_ptr<const TokenShard> counting_shard(const Path& prefix, int32_t first,
                                                 int64_t documents) {
  TokenShardWriter writer(prefix, 1 << 20);
  int32_t next = first;
  for (int64_t d = 0; d < documents; ++d) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i <= d % 7; ++i) tokens.push_back(next++);
    writer.add_document(tokens);
  }
  writer.commit();
  return TokenShard::open(prefix);
}

TEST(ShardSource, ReadsEverySampleOncePerEpochInANewOrder) {
  const Scratch scratch;
  const ShardSource source(
      "s", {counting_shard(scratch / "a", 0, 50), counting_shard(scratch / "b", 1000, 30)}, 1 << 20,
      3);
  const int64_t count = source.samples_per_epoch(8);
  EXPECT_EQ(count, (197 - 1) / 8 + (115 - 1) / 8);
  std::vector<std::vector<int32_t>> epochs(3);
  for (int64_t i = 0; i < 3 * count; ++i) {
    epochs[static_cast<size_t>(i / count)].push_back(source.sample(i, 8).inputs[0]);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  const std::set<int32_t> all(epochs[0].begin(), epochs[0].end());
  EXPECT_EQ(static_cast<int64_t>(all.size()), count);
  EXPECT_EQ(std::set<int32_t>(epochs[1].begin(), epochs[1].end()), all);
}

TEST(ShardSource, KeepsDocumentsApart) {
  const Scratch scratch;
  const ShardSource source("s", {counting_shard(scratch / "a", 0, 50)}, 1 << 20, 3);
  for (int64_t i = 0; i < source.samples_per_epoch(16); ++i) {
    const Sample sample = source.sample(i, 16);
    // Where documents begin, counted from the start of the shard: after 1, 3, 6, 10, 15, 21, 28.
    const auto begins = [](int32_t token) {
      constexpr int32_t kBegins[] = {0, 1, 3, 6, 10, 15, 21};
      return std::find(std::begin(kBegins), std::end(kBegins), token % 28) != std::end(kBegins);
    };
    size_t at = 0;
    for (const int64_t length : sample.lengths) {
      for (int64_t j = 0; j < length; ++j, ++at) {
        const int32_t token = sample.inputs[at];
        EXPECT_EQ(token, sample.inputs[0] + static_cast<int32_t>(at));
        EXPECT_EQ(j == 0, at == 0 || begins(token)) << token;
        EXPECT_EQ(sample.targets[at], begins(token + 1) ? kNoTarget : token + 1);
      }
    }
    EXPECT_EQ(at, 16u);
  }
}

TEST(ShardSource, SaysWhenAContextDoesNotFit) {
  const Scratch scratch;
  const ShardSource source("web", {counting_shard(scratch / "a", 0, 7)}, 1 << 20, 3);
  source.check(27);
  EXPECT_STREQ(error_of([&] { source.check(28); }).what(),
               "source 'web': its longest shard has 28 tokens; a context of 28 needs one more than "
               "that");
}

TEST(EnvironmentSource, PacksSolvedTasks) {
  const EnvironmentSource source("tasks", {.kinds = {"addition"}, .max_level = 2}, test_tokenizer(),
                                 5);
  const Sample sample = source.sample(11, 512);
  ASSERT_EQ(sample.inputs.size(), 512u);
  ASSERT_GT(sample.lengths.size(), 2u);
  const std::vector<int32_t> first(sample.inputs.begin(),
                                   sample.inputs.begin() + sample.lengths[0]);
  const std::string text = test_tokenizer()->decode(first, {.keep_special = false});
  EXPECT_NE(text.find("What is "), std::string::npos) << text;
  EXPECT_NE(text.find("\nAnswer: "), std::string::npos) << text;
  EXPECT_EQ(first.back(), test_tokenizer()->eos()[0]);
  // Only the solution is learnt, its end included.
  std::vector<int32_t> learnt;
  for (size_t i = 0; i < first.size(); ++i) {
    if (sample.targets[i] == kNoTarget) continue;
    EXPECT_EQ(sample.targets[i], first[i + 1]);
    learnt.push_back(sample.targets[i]);
  }
  EXPECT_EQ(learnt.back(), test_tokenizer()->eos()[0]);
  const std::string solved = test_tokenizer()->decode(learnt, {.keep_special = false});
  EXPECT_EQ(solved.find("What"), std::string::npos) << solved;
  EXPECT_TRUE(text.ends_with(solved)) << solved;
}

TEST(EnvironmentSource, IsAPureFunctionOfThePosition) {
  const EnvironmentSource a("tasks", {}, test_tokenizer(), 5), b("tasks", {}, test_tokenizer(), 5);
  const EnvironmentSource other("tasks", {}, test_tokenizer(), 6);
  for (const int64_t position : {3, 0, 7}) {
    EXPECT_EQ(a.sample(position, 300).inputs, b.sample(position, 300).inputs);
    EXPECT_NE(a.sample(position, 300).inputs, a.sample(position + 1, 300).inputs);
    EXPECT_NE(a.sample(position, 300).inputs, other.sample(position, 300).inputs);
  }
  EXPECT_EQ(a.identity(), b.identity());
  EXPECT_NE(a.identity(), other.identity());
}

struct TwoShards {
  Scratch scratch;
  std::shared_ptr<const ShardSource> a = std::make_shared<ShardSource>(
      "a", std::vector{counting_shard(scratch / "a", 0, 200)}, 1 << 20, 1);
  std::shared_ptr<const ShardSource> b = std::make_shared<ShardSource>(
      "b", std::vector{counting_shard(scratch / "b", 5000, 90)}, 1 << 20, 1);

  Loader loader() const {
    return Loader(
        SampleOrder({{.steps = 4, .batch = 6, .context = 8, .mixture = {{"a", 2}, {"b", 1}}},
                     {.steps = 3, .batch = 3, .context = 16, .mixture = {{"b", 1}}}}),
        {a, b});
  }
};

TEST(Loader, ReadsTheSameSamplesHoweverABatchIsSplit) {
  const TwoShards run;
  const Loader loader = run.loader();
  for (int64_t step = 0; step < loader.order().steps(); ++step) {
    const int64_t size = loader.order().phase_at(step).batch;
    const Batch whole = loader.batch(step, 0, size);
    EXPECT_EQ(whole.samples, size);
    EXPECT_EQ(whole.tokens(), size * loader.order().phase_at(step).context);
    std::vector<int32_t> inputs, targets;
    int64_t predicted = 0;
    for (int64_t i = 0; i < size; i += 2) {
      const Batch part = loader.batch(step, i, std::min<int64_t>(2, size - i));
      inputs.insert(inputs.end(), part.inputs.begin(), part.inputs.end());
      targets.insert(targets.end(), part.targets.begin(), part.targets.end());
      predicted += part.predicted;
    }
    EXPECT_EQ(inputs, whole.inputs);
    EXPECT_EQ(targets, whole.targets);
    EXPECT_EQ(predicted, whole.predicted);
    EXPECT_EQ(whole.segments().tokens(), whole.tokens());
    EXPECT_FALSE(whole.segments().real_N.defined());
  }
}

TEST(Loader, NamesTheSourceThatIsMissing) {
  const TwoShards run;
  const SampleOrder order({{.steps = 1, .batch = 1, .context = 8, .mixture = {{"webb", 1}}}});
  const auto web = std::make_shared<ShardSource>(
      "web", std::vector{TokenShard::open(run.scratch / "a")}, 1 << 20, 1);
  EXPECT_STREQ(error_of([&] { Loader(order, {web}); }).what(),
               "the mixture names a source 'webb', which is not defined; did you mean 'web'?");
}

struct SourceList {
  std::vector<SourceConfig> sources;
  void fields(ConfigFields& f) { f.list("sources", sources, "where tokens come from"); }
};

TEST(SourceConfig, OpensWhatAConfigDescribes) {
  const TwoShards shards;
  const std::string text = format(R"(
[[sources]]
name = "web"
paths = ["{}"]
[[sources]]
name = "tasks"
kind = "environments"
environments = ["addition", "maze"]
max_level = 3
)",
                                  shards.scratch.path().string());
  SourceList list;
  ConfigFile::parse(text, "a.toml").load(list);
  const auto sources = open_sources(list.sources, {test_tokenizer(), 1 << 20, 7});
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0]->samples_per_epoch(8),
            shards.a->samples_per_epoch(8) + shards.b->samples_per_epoch(8));
  EXPECT_EQ(sources[1]->name(), "tasks");
  EXPECT_EQ(sources[1]->sample(0, 64).inputs.size(), 64u);
  EXPECT_STREQ(error_of([&] {
                 open_sources(list.sources, {nullptr, 1 << 20, 7});
               }).what(),
               "source 'tasks': environments need a tokenizer");
  list.sources[1].name = "web";
  EXPECT_STREQ(error_of([&] {
                 open_sources(list.sources, {test_tokenizer(), 1 << 20, 7});
               }).what(),
               "two data sources have the name 'web'");
}

TEST(SourceConfig, SaysWhatIsWrong) {
  const auto load = [](const std::string& text) {
    SourceList list;
    return std::string(error_of([&] { ConfigFile::parse(text, "a.toml").load(list); }).what());
  };
  EXPECT_EQ(load("[[sources]]\nname = \"x\""),
            "a.toml:1: key 'sources[0].paths': a source of shards needs one");
  EXPECT_EQ(load("[[sources]]\nname = \"x\"\nkind = \"environments\"\nmin_level = 9"),
            "a.toml:1: key 'sources[0].max_level': is below min_level");
}

TEST(Batch, MarksPadding) {
  Batch batch;
  batch.add({.inputs = {1, 2}, .targets = {2, kNoTarget}, .lengths = {2}});
  EXPECT_TRUE(batch.real.empty());
  batch.add({.inputs = {3, 0}, .targets = {kNoTarget, kNoTarget}, .lengths = {1, 1}, .padding = 1});
  batch.add({.inputs = {4, 5}, .targets = {5, kNoTarget}, .lengths = {2}});
  EXPECT_EQ(batch.real, (std::vector<int32_t>{1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(batch.predicted, 2);
  const Segments segments = batch.segments();
  EXPECT_EQ(segments.count, 4);
  EXPECT_EQ(segments.real_N.data<int32_t>()[3], 0);
}

TEST(Prefetch, GivesWhatIsMadeInOrderAndAfterAJump) {
  std::atomic<int64_t> made{0};
  Prefetch<int64_t> prefetch(
      [&](int64_t step) {
        ++made;
        return step * step;
      },
      3);
  for (const int64_t step : {0, 1, 2, 3, 10, 11, 4, 5}) EXPECT_EQ(prefetch.take(step), step * step);
  EXPECT_LE(made, 8 + 3 * 4) << "it runs ahead by its depth, not without end";
  EXPECT_GE(prefetch.waited_seconds(), 0);
}

TEST(Prefetch, ThrowsWhatMakingThrewAndGoesOn) {
  Prefetch<int64_t> prefetch(
      [](int64_t step) {
        if (step == 2) throw Error(Fault::data, "bad shard");
        return step;
      },
      2);
  EXPECT_EQ(prefetch.take(0), 0);
  EXPECT_EQ(prefetch.take(1), 1);
  EXPECT_STREQ(error_of([&] { prefetch.take(2); }).what(), "bad shard");
  EXPECT_EQ(prefetch.take(3), 3);
  EXPECT_STREQ(error_of([&] { prefetch.take(2); }).what(), "bad shard");
}

TEST(Prefetch, JumpsWhileEverythingIsReady) {
  Prefetch<int64_t> prefetch([](int64_t step) { return step; }, 2);
  for (int64_t round = 0; round < 20; ++round) {
    EXPECT_EQ(prefetch.take(100 * round), 100 * round);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the worker fills up and sleeps
  }
}

TEST(Prefetch, StopsWithoutBeingAsked) {
  const Prefetch<int64_t> unused([](int64_t step) { return step; }, 2);
  Prefetch<int64_t> used([](int64_t step) { return step; }, 2);
  EXPECT_EQ(used.take(5), 5);
}

}  // namespace
}  // namespace tephra

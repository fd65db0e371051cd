// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/engine.h"

#include <gtest/gtest.h>

#include <atomic>

namespace tephra {
namespace {

std::unique_ptr<Model> tiny_for_threads() {
  return load_model(Path(TEPHRA_GOLDEN_DIR) / "zaya-tiny", {});
}

EngineRequest counting(std::atomic<int>& tokens, std::atomic<int>& ends, int64_t most) {
  EngineRequest r;
  r.prompt = {5, 6, 7};
  r.max_new_tokens = most;
  r.stop_at_eos = false;
  r.on_token = [&tokens](const EngineToken&) { return ++tokens > 0; };
  r.on_end = [&ends](const EngineEnd&) { ++ends; };
  return r;
}

TEST(Engine, ServesManyThreads) {
  const auto model = tiny_for_threads();
  std::atomic<int> tokens = 0, ends = 0;
  {
    Engine engine(*model, {.sequences = 5});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 5; ++k) engine.submit(counting(tokens, ends, 6));
      });
    }
    for (std::thread& t : threads) t.join();
    engine.wait_until_idle();
    EXPECT_EQ(tokens, 20 * 6);
    EXPECT_EQ(ends, 20);
    EXPECT_EQ(engine.stats().new_tokens, 20 * 6);
    EXPECT_EQ(engine.stats().ended[static_cast<int>(EndReason::length)], 20);
  }
  EXPECT_EQ(ends, 20);
}

// Two on one model and one on another, at the same time, say what each says alone.
TEST(Engine, SeveralInAProcessDoNotSeeEachOther) {
  const auto model = tiny_for_threads(), other = tiny_for_threads();
  using Said = std::vector<std::vector<int32_t>>;
  const auto ask = [](Engine& engine, Said& said) {
    for (size_t i = 0; i < said.size(); ++i) {
      EngineRequest r;
      r.prompt = {5, 6, static_cast<int32_t>(7 + i)};
      r.max_new_tokens = 24;
      r.stop_at_eos = false;
      r.sampling = {.temperature = 1.5, .seed = 3};
      r.stream = static_cast<uint32_t>(i);
      r.on_token = [&one = said[i]](const EngineToken& token) {
        one.push_back(token.id);
        return true;
      };
      engine.submit(std::move(r));
    }
  };
  Said alone(12);
  {
    Engine engine(*model, {.sequences = 5});
    ask(engine, alone);
    engine.wait_until_idle();
  }
  Said said[3] = {Said(12), Said(12), Said(12)};
  {
    Engine first(*model, {.sequences = 5}), second(*model, {.sequences = 3}), third(*other, {});
    Engine* engines[] = {&first, &second, &third};
    for (int i = 0; i < 3; ++i) ask(*engines[i], said[i]);
    for (Engine* engine : engines) engine->wait_until_idle();
  }
  for (const Said& each : said) EXPECT_EQ(each, alone);
}

TEST(Engine, CancelsOneAndAllThatAreLeftWhenItGoes) {
  const auto model = tiny_for_threads();
  std::atomic<int> tokens = 0, ends = 0;
  {
    Engine engine(*model, {.sequences = 2});
    const uint64_t first = engine.submit(counting(tokens, ends, 500));
    for (int i = 0; i < 4; ++i) engine.submit(counting(tokens, ends, 500));
    engine.cancel(first);
    while (ends == 0) std::this_thread::yield();
    EXPECT_LE(engine.stats().running, 2);
    EXPECT_THROW(engine.submit(counting(tokens, ends, 5000)), Error);
  }
  EXPECT_EQ(ends, 5);
}

}  // namespace
}  // namespace tephra

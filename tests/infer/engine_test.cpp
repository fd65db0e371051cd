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

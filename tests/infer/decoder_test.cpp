// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/decoder.h"

#include <gtest/gtest.h>

#include "tephra/infer/generate.h"

namespace tephra {
namespace {

const Path kTiny = Path(TEPHRA_GOLDEN_DIR) / "zaya-tiny";

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Decoder, RunsSequencesOfDifferentLengthsSideBySide) {
  const auto model = load_model(kTiny, {});
  Decoder both(*model, 2, 16), alone(*model, 1, 16);
  both.advance(std::vector<std::vector<int32_t>>{{3, 4, 5}, {}});
  both.advance(std::vector<std::vector<int32_t>>{{}, {9}});
  const Tensor h = both.advance(std::vector<std::vector<int32_t>>{{6}, {10, 11}});
  ASSERT_EQ(h.rows(), 3);
  alone.advance({3, 4, 5});
  const Tensor want = alone.advance({6});
  for (int64_t c = 0; c < h.cols(); ++c) EXPECT_NEAR(h.at(c), want.at(c), 1e-5);
  Decoder second(*model, 1, 16);
  second.advance({9});
  const Tensor rest = second.advance({10, 11});
  for (int64_t i = 0; i < rest.numel(); ++i) {
    EXPECT_NEAR(h.at(h.cols() + i), rest.at(i), 1e-5);
  }
  EXPECT_EQ(both.length(0), 4);
  EXPECT_EQ(both.length(1), 3);
}

TEST(Decoder, SaysWhatDoesNotFit) {
  const auto model = load_model(kTiny, {});
  Decoder decoder(*model, 1, 4);
  EXPECT_EQ(message_of([&] {
              decoder.advance({3, 4, 5, 6, 7});
            }),
            "context: 0 tokens and 5 more do not fit into 4");
  EXPECT_EQ(message_of([&] { decoder.advance({96}); }),
            "token 0 of sequence 0: expected an id in [0, 96), got 96");
  EXPECT_EQ(message_of([&] { Decoder(*model, 1, 513); }),
            "context: 513 tokens do not fit the model, whose limit is 512; shorten the prompt or "
            "ask for fewer new tokens");
}

TEST(Decoder, WillNotRestoreASnapshotOfAForgottenLine) {
  const auto model = load_model(kTiny, {});
  Decoder decoder(*model, 1, 16), other(*model, 1, 16);
  decoder.advance({3, 4});
  const Decoder::Snapshot early = decoder.snapshot();
  decoder.advance({5, 6});
  const Decoder::Snapshot late = decoder.snapshot();
  decoder.restore(early);
  decoder.advance({7, 8, 9});
  EXPECT_THROW(decoder.restore(late), Error);
  EXPECT_THROW(other.restore(early), Error);
  decoder.restore(early);
  EXPECT_EQ(decoder.length(0), 2);
}

TEST(Decoder, WillNotRestoreASnapshotAheadOfIt) {
  const auto model = load_model(kTiny, {});
  Decoder decoder(*model, 1, 8);
  const Decoder::Snapshot start = decoder.snapshot();
  decoder.advance({3, 4, 5});
  const Decoder::Snapshot later = decoder.snapshot();
  decoder.restore(start);
  EXPECT_THROW(decoder.restore(later), Error);
}

TEST(Generate, IsTheSameForAnyPrefillChunk) {
  const auto model = load_model(kTiny, {});
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 50; ++i) prompt.push_back(3 + i * 7 % 90);
  GenerateOptions options{.max_new_tokens = 20, .stop_at_eos = false};
  const std::vector<int32_t> want = generate(*model, prompt, options).tokens;
  for (const int64_t chunk : {1, 7, 50}) {
    options.prefill_chunk = chunk;
    EXPECT_EQ(generate(*model, prompt, options).tokens, want) << chunk;
  }
}

TEST(Generate, StreamsEveryTokenAndStopsWhenTold) {
  const auto model = load_model(kTiny, {});
  std::vector<int32_t> seen;
  GenerateOptions options{.max_new_tokens = 20, .stop_at_eos = false};
  options.on_token = [&](int32_t id) {
    seen.push_back(id);
    return seen.size() < 5;
  };
  const Generation g = generate(*model, {3, 4}, options);
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(g.tokens, seen);
}

TEST(Generate, RefusesAnEmptyPrompt) {
  const auto model = load_model(kTiny, {});
  EXPECT_EQ(message_of([&] { generate(*model, {}, {}); }),
            "generate: the prompt is empty; give at least one token");
}

}  // namespace
}  // namespace tephra

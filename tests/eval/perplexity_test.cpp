// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tephra/autograd/tape.h"
#include "tephra/base/parallel.h"
#include "tests/support/error_of.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

std::unique_ptr<Model> tiny_model(DType dtype) {
  return load_model(Path(TEPHRA_GOLDEN_DIR) / "zaya-tiny", {.dtype = dtype});
}

std::vector<int32_t> some_ids(size_t count) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((i * i * 3 + i) % 96));
  return ids;
}

// -log p of `target` after the ids [begin, target): plainly, with a forward pass of its own.
double plain_nats(const Model& model, const std::vector<int32_t>& ids, int64_t begin,
                  int64_t target) {
  const NoGrad no_grad;
  const std::vector<int32_t> before(ids.begin() + begin, ids.begin() + target);
  const int64_t count = target - begin;
  const Tensor h = model.forward(from_values({count}, before), Segments::batch(1, count));
  const Tensor logits = model.logits(h.slice_rows(count - 1, count));
  double sum = 0;
  for (int64_t i = 0; i < logits.cols(); ++i) sum += std::exp(logits.at(i));
  return std::log(sum) - logits.at(ids[static_cast<size_t>(target)]);
}

TEST(Perplexity, IsWhatTheLogitsSayInDoublePrecision) {
  const std::vector<int32_t> ids = some_ids(40);
  const auto exact = tiny_model(DType::f64);
  double want = 0;
  for (int64_t t = 1; t < 40; ++t) want += plain_nats(*exact, ids, 0, t);
  const Perplexity got = token_perplexity(*exact, ids, {});
  EXPECT_EQ(got.tokens, 39);
  EXPECT_EQ(got.windows, 1);
  EXPECT_NEAR(got.nats, want, 1e-9 * want);
  EXPECT_NEAR(got.per_token(), std::exp(want / 39), 1e-8);

  // f32 rounds logits at about 1e-6 of their size; its sum must agree nearly as well.
  const Perplexity narrow = token_perplexity(*tiny_model(DType::f32), ids, {});
  EXPECT_NEAR(narrow.nats, want, 1e-5 * want);
}

TEST(Perplexity, ScoresEveryTokenOnceWithTheContextItsWindowGives) {
  const auto model = tiny_model(DType::f64);
  for (const auto& [size, window, stride] : {std::array<int64_t, 3>{40, 16, 16},
                                             {40, 16, 8},
                                             {40, 16, 5},
                                             {41, 16, 1},
                                             {17, 16, 7},
                                             {18, 16, 16},
                                             {2, 16, 4},
                                             {40, 1, 1}}) {
    const std::vector<int32_t> ids = some_ids(static_cast<size_t>(size));
    double want = 0;
    for (int64_t t = 1; t < size; ++t) {
      int64_t begin = 0;  // of the first window that has `t` as a target
      while (begin + window < t) begin += stride;
      want += plain_nats(*model, ids, begin, t);
    }
    const Perplexity got =
        token_perplexity(*model, ids, {.window = window, .stride = stride, .pass_tokens = 48});
    EXPECT_EQ(got.tokens, size - 1);
    EXPECT_NEAR(got.nats, want, 1e-9 * want) << size << " " << window << " " << stride;
  }
}

TEST(Perplexity, IsTheSameOnAnyNumberOfThreads) {
  const auto model = tiny_model(DType::f32);
  const std::vector<int32_t> ids = some_ids(300);
  const int before = num_threads();
  const double want = token_perplexity(*model, ids, {.window = 64}).nats;
  for (const int threads : {1, 3, 8}) {
    set_num_threads(threads);
    EXPECT_EQ(token_perplexity(*model, ids, {.window = 64}).nats, want) << threads;
  }
  set_num_threads(before);
}

TEST(Perplexity, SaysWhatDoesNotFit) {
  const auto model = tiny_model(DType::f32);
  const std::vector<int32_t> ids = some_ids(20);
  EXPECT_EQ(message_of([&] { token_perplexity(*model, ids, {.window = 513}); }),
            "window: expected at most the model's limit of 512 tokens, got 513");
  EXPECT_EQ(message_of([&] { token_perplexity(*model, ids, {.window = 8, .stride = 9}); }),
            "stride: expected at most the window of 8 tokens, got 9; tokens between windows would "
            "not be scored");
  EXPECT_EQ(message_of([&] { token_perplexity(*model, std::vector<int32_t>{3}, {}); }),
            "perplexity: expected at least two tokens, got 1");
  EXPECT_EQ(message_of([&] {
              token_perplexity(*model, std::vector<int32_t>{3, 96}, {});
            }),
            "token 1 is 96; the model's vocabulary has ids 0 to 95; is this its tokenizer.json?");
}

// Vocabulary of bytes; `bos` says whether the tokenizer puts a token before a text.
Tokenizer letters(bool bos) {
  std::string vocab;
  for (int i = 0; i < 26; ++i) {
    vocab += (i > 0 ? ", \"" : "\"") + std::string(1, static_cast<char>('a' + i)) +
             "\": " + std::to_string(10 + i);
  }
  const std::string post = bos ? R"({"type": "TemplateProcessing",
               "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                          {"Sequence": {"id": "A", "type_id": 0}}],
               "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                        {"Sequence": {"id": "B", "type_id": 1}}],
               "special_tokens": {"<s>": {"id": "<s>", "ids": [2], "tokens": ["<s>"]}}})"
                               : "null";
  return Tokenizer::parse(
      R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [
           {"id": 2, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
          "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
          "trim_offsets": true, "use_regex": false}, "post_processor": )" +
          post + R"(, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "dropout": null,
          "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
          "fuse_unk": false, "byte_fallback": false, "vocab": {)" +
          vocab + R"(}, "merges": []}})",
      "letters");
}

TEST(Perplexity, CountsTheBytesOfTheTokensItScores) {
  const auto model = tiny_model(DType::f32);
  const std::string text = "abcdefgh";
  const Perplexity with = text_perplexity(*model, letters(true), text, "t", {});
  EXPECT_EQ(with.tokens, 8);
  EXPECT_EQ(with.bytes, 8);
  const std::vector<int32_t> ids = {2, 10, 11, 12, 13, 14, 15, 16, 17};
  EXPECT_EQ(with.nats, token_perplexity(*model, ids, {}).nats);
  EXPECT_DOUBLE_EQ(with.bits_per_byte(), with.nats / std::log(2.0) / 8);

  const Perplexity without = text_perplexity(*model, letters(false), text, "t", {});
  EXPECT_EQ(without.tokens, 7);
  EXPECT_EQ(without.bytes, 7);
}

TEST(Perplexity, SaysWhatIsWrongWithAText) {
  const auto model = tiny_model(DType::f32);
  const Error broken =
      error_of([&] { text_perplexity(*model, letters(true), "ab\xff", "a.txt", {}); });
  EXPECT_EQ(broken.fault(), Fault::data);
  EXPECT_STREQ(broken.what(), "a.txt: expected UTF-8 text, but byte 2 is none");
  EXPECT_EQ(message_of([&] { text_perplexity(*model, letters(true), "", "a.txt", {}); }),
            "a.txt: expected text of at least one token, got 0 tokens");
  EXPECT_EQ(message_of([&] { text_perplexity(*model, letters(false), "a", "a.txt", {}); }),
            "a.txt: expected text of at least two tokens, got 1 tokens");
}

}  // namespace
}  // namespace tephra

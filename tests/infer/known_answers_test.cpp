// SPDX-License-Identifier: Apache-2.0
// The check of published answers, on a small model whose answers the reference implementation gave.
#include "tephra/infer/known_answers.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra::known_answers_test {
namespace {

const Path kModel = Path(TEPHRA_GOLDEN_DIR) / "zaya-tiny";

std::vector<int32_t> row_of(const Tensor& ids, int64_t begin, int64_t end) {
  std::vector<int32_t> row;
  for (int64_t i = begin; i < end; ++i) row.push_back(static_cast<int32_t>(ids.at(i)));
  return row;
}

// From the golden file: the first row of its batch, the likeliest token after each of its ids, and
// the greedy continuation of a prompt.
KnownAnswers published_argmax() {
  const SafetensorsFile golden = SafetensorsFile::open(kModel / "golden.safetensors");
  const Tensor ids = golden.tensor("input_ids"), logits = golden.tensor("logits");
  const int64_t tokens = ids.dim(1), width = logits.cols();
  KnownAnswers known{.name = "tiny", .source = "a test", .ids = row_of(ids, 0, tokens)};
  for (int64_t t = 0; t < tokens; ++t) {
    int64_t best = 0;
    for (int64_t c = 1; c < width; ++c) {
      if (logits.at(t * width + c) > logits.at(t * width + best)) best = c;
    }
    known.likeliest.push_back(static_cast<int32_t>(best));
  }
  for (int64_t t = tokens - 2; t < tokens; ++t) {
    known.last_logits.push_back({logits.at((t + 1) * width - 2), logits.at((t + 1) * width - 1)});
  }
  known.margin = 1e-3;
  return known;
}

KnownAnswers published_greedy() {
  const SafetensorsFile golden = SafetensorsFile::open(kModel / "golden.safetensors");
  const Tensor greedy = golden.tensor("greedy");
  const auto prompt = static_cast<int64_t>(golden.tensor("greedy_prompt_len").at(0));
  return {.name = "tiny",
          .source = "a test",
          .ids = row_of(greedy, 0, prompt),
          .likeliest = {},
          .continuation = row_of(greedy, prompt, greedy.dim(1)),
          .last_logits = {},
          .margin = 1e-3};
}

const Check& check_named(const VerifyReport& report, const std::string& name) {
  for (const Check& c : report.checks) {
    if (c.name == name) return c;
  }
  throw std::runtime_error("no check " + name);
}

TEST(KnownAnswers, OfTheReferencePass) {
  const auto model = load_model(kModel, {});
  const VerifyReport argmax = verify_known(*model, published_argmax());
  EXPECT_TRUE(argmax.pass());
  EXPECT_EQ(argmax.checks.size(), 3u);
  const VerifyReport greedy = verify_known(*model, published_greedy());
  EXPECT_TRUE(greedy.pass());
  ASSERT_EQ(greedy.notes.size(), 2u);
  EXPECT_NE(greedy.notes[0].find("within 0.001"), std::string::npos) << greedy.notes[0];
  EXPECT_NE(greedy.notes[1].find("says all"), std::string::npos) << greedy.notes[1];
}

TEST(KnownAnswers, AFlipIsForgivenWithinTheMarginAlone) {
  const auto model = load_model(kModel, {});
  KnownAnswers known = published_argmax();
  known.likeliest[3] = known.likeliest[3] == 7 ? 8 : 7;
  const VerifyReport far = verify_known(*model, known);
  EXPECT_FALSE(check_named(far, "likeliest tokens: distance").pass);
  EXPECT_TRUE(check_named(far, "likeliest tokens: flips").pass);
  EXPECT_NE(check_named(far, "likeliest tokens: distance").worst.find("position 3: published"),
            std::string::npos);
  known.margin = 1e3;
  EXPECT_TRUE(verify_known(*model, known).pass());
}

TEST(KnownAnswers, ManyFlipsFailHoweverNear) {
  const auto model = load_model(kModel, {});
  KnownAnswers known = published_argmax();
  known.margin = 1e3;
  for (size_t i = 0; i * 3 < known.likeliest.size(); ++i) {
    known.likeliest[i] = known.likeliest[i] == 7 ? 8 : 7;
  }
  EXPECT_FALSE(check_named(verify_known(*model, known), "likeliest tokens: flips").pass);
}

TEST(KnownAnswers, OneFlipDoesNotChangeWhatFollows) {
  const auto model = load_model(kModel, {});
  KnownAnswers known = published_greedy();
  const size_t last = known.continuation.size() - 1;
  known.continuation[last] = known.continuation[last] == 7 ? 8 : 7;
  const VerifyReport report = verify_known(*model, known);
  EXPECT_EQ(check_named(report, "continuation: flips").max_abs, 1);
  EXPECT_NE(report.notes[1].find("instead of"), std::string::npos) << report.notes[1];
}

TEST(KnownAnswers, OtherLogitsFail) {
  const auto model = load_model(kModel, {});
  KnownAnswers known = published_argmax();
  known.last_logits[1][0] += 0.01;
  const VerifyReport report = verify_known(*model, known);
  EXPECT_FALSE(check_named(report, "last logits").pass);
}

TEST(KnownAnswers, OfAnotherModelAreRefused) {
  const auto model = load_model(kModel, {});
  const Error e = error_of([&] { verify_known(*model, known_answers("zaya1-8b")); });
  EXPECT_EQ(e.fault(), Fault::data);
  EXPECT_NE(std::string(e.what()).find("is this zaya1-8b?"), std::string::npos) << e.what();
  EXPECT_EQ(error_of([] { known_answers("zaya2"); }).fault(), Fault::usage);
}

TEST(KnownAnswers, AreReadFromAFile) {
  const Scratch scratch;
  const Path path = scratch / "known.json";
  const auto fault_of = [&](const std::string& text) {
    write_file(path, text);
    return error_of([&] { known_answers(path.string()); }).fault();
  };
  write_file(path, R"({"input_ids": [1, 2], "argmax": [3, 4], "last_logits": [[0.5]]})");
  const KnownAnswers known = known_answers(path.string());
  EXPECT_EQ(known.name, "known");
  EXPECT_EQ(known.likeliest, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(known.last_logits[0][0], 0.5);
  EXPECT_EQ(fault_of(R"({"input_ids": [1, 2]})"), Fault::data);
  EXPECT_EQ(fault_of(R"({"input_ids": [1, 2], "argmax": [3]})"), Fault::data);
  EXPECT_EQ(fault_of(R"({"input_ids": [1, -2], "greedy": [3]})"), Fault::data);
  EXPECT_EQ(fault_of(R"({"input_ids": [1], "greedy": [3], "margin": -1})"), Fault::data);
  EXPECT_EQ(fault_of(R"({"input_ids": [1], "greedy": [3], "last_logits": [1]})"), Fault::data);
}

}  // namespace
}  // namespace tephra::known_answers_test

// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/run_folder.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tephra {
namespace {

using Keys = std::vector<std::string>;

TEST(RunFolder, NamesTheKeysThatChanged) {
  const std::string before = "seed = 1\n[model]\nhidden_size = 8\n[[phases]]\nlr = 1\n";
  EXPECT_EQ(changed_keys(before, before), Keys{});
  EXPECT_EQ(changed_keys(before, "seed = 2\n[model]\nhidden_size = 8\n[[phases]]\nlr = 2\n"),
            (Keys{"phases[0].lr", "seed"}));
  EXPECT_EQ(changed_keys(before, before + "[[phases]]\nlr = 1\n"), Keys{"phases[1].lr"});
}

TEST(RunFolder, RefusesToGoOnWithAnotherModel) {
  const std::string saved = "seed = 1\n[model]\nhidden_size = 8\n";
  const Error error = error_of(
      [&] { check_same_run(saved, "seed = 1\n[model]\nhidden_size = 16\n", "run/step-5"); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_NE(std::string(error.what()).find("model.hidden_size"), std::string::npos);
  EXPECT_NO_THROW(check_same_run(saved, saved + "[log]\nevery_steps = 5\n", "run/step-5"));
}

TEST(RunFolder, RefusesToGoOnWithTheModelOfAnotherFolder) {
  const auto model = [](double theta, int64_t end) {
    Json config;
    config["hidden_size"] = 8;
    config["rope_parameters"]["hybrid"]["rope_theta"] = theta;
    config["eos_token_id"] = end;
    return config;
  };
  const Json saved = model(1e6, 1);
  const Error error =
      error_of([&] { check_same_model(saved, model(1e4, 1), false, "run/step-5"); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_STREQ(error.what(),
               "run/step-5 is of a model with other values of: rope_parameters.hybrid.rope_theta");
  EXPECT_NE(error.hint().find("--init-from"), std::string::npos);
  EXPECT_NO_THROW(check_same_model(saved, model(1e6, 2), false, "run/step-5"))
      << "what ends a text is the tokenizer's";
  EXPECT_NO_THROW(check_same_model(saved, model(1e4, 1), true, "run/step-5"))
      << "phases have set it";
  Json newer = saved;
  newer["a_key_of_a_later_version"] = 1;
  EXPECT_NO_THROW(check_same_model(saved, newer, false, "run/step-5"));
}

}  // namespace
}  // namespace tephra

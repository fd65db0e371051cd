// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/rules.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace tephra {
namespace {

std::vector<ParameterSpec> some_specs() {
  return {{"embed.weight", {10, 4}, ParameterKind::embedding},
          {"layers.0.q.weight", {4, 4}, ParameterKind::matrix},
          {"layers.0.conv.weight", {4, 1, 2}, ParameterKind::convolution},
          {"layers.0.experts.up", {3, 8, 4}, ParameterKind::experts},
          {"layers.0.norm.weight", {4}, ParameterKind::vector},
          {"layers.0.biases", {4}, ParameterKind::buffer},
          {"layers.1.q.weight", {4, 4}, ParameterKind::matrix},
          {"head.weight", {10, 4}, ParameterKind::head}};
}

TEST(Rules, GiveMuonProjectionsAndExpertsAndAdamWTheRest) {
  const auto rules = assign_rules(some_specs());
  const UpdateRule want[] = {UpdateRule::adamw, UpdateRule::muon,  UpdateRule::adamw,
                             UpdateRule::muon,  UpdateRule::adamw, UpdateRule::frozen,
                             UpdateRule::muon,  UpdateRule::adamw};
  const bool decays[] = {true, true, true, true, false, false, true, true};
  for (size_t i = 0; i < rules.size(); ++i) {
    EXPECT_EQ(rules[i].rule, want[i]) << i;
    EXPECT_EQ(rules[i].decays, decays[i]) << i;
    EXPECT_EQ(rules[i].rate, 1) << i;
  }
}

TEST(Rules, CanLeaveEverythingToAdamW) {
  for (const ParameterRule& r : assign_rules(some_specs(), {.matrices = UpdateRule::adamw})) {
    EXPECT_NE(r.rule, UpdateRule::muon);
  }
}

TEST(Rules, TakeExceptionsByName) {
  const auto rules = assign_rules(
      some_specs(),
      {.overrides = {{.names = "layers.*", .rate = 0.5},
                     {.names = "*.q.*", .rule = UpdateRule::adamw},
                     {.names = "layers.1.q.weight", .rule = UpdateRule::frozen, .rate = 0.25},
                     {.names = "embed.weight", .decays = false}}});
  EXPECT_FALSE(rules[0].decays);
  EXPECT_EQ(rules[0].rate, 1);
  EXPECT_EQ(rules[1].rule, UpdateRule::adamw);
  EXPECT_EQ(rules[1].rate, 0.5);
  EXPECT_EQ(rules[3].rule, UpdateRule::muon);
  EXPECT_EQ(rules[5].rule, UpdateRule::frozen) << "a buffer stays one";
  EXPECT_EQ(rules[5].rate, 1);
  EXPECT_EQ(rules[6].rule, UpdateRule::frozen);
  EXPECT_EQ(rules[6].rate, 0.25) << "later ones win";
}

TEST(Rules, RefuseExceptionsThatCannotBe) {
  const auto message = [](const RuleOverride& o) {
    return message_of([&] { assign_rules(some_specs(), {.overrides = {o}}); });
  };
  EXPECT_EQ(message({.names = "layer.*", .rate = 2}),
            "optimizer rule 'layer.*': expected the name of a trained parameter, got one that none "
            "has; '*' stands for any text");
  EXPECT_EQ(message({.names = "layers.0.biases", .rate = 2}),
            "optimizer rule 'layers.0.biases': expected the name of a trained parameter, got one "
            "that none has; '*' stands for any text");
  EXPECT_EQ(
      message({.names = "*.norm.weight", .rule = UpdateRule::muon}),
      "optimizer rule '*.norm.weight': expected matrices for Muon, got layers.0.norm.weight of "
      "kind vector; use adamw for it");
  EXPECT_EQ(message({.names = "head*", .rate = -1}),
            "optimizer rule 'head*': expected a rate of 0 or more, got -1");
}

TEST(Rules, ArePrintedWithLayersTogether) {
  EXPECT_EQ(
      rules_table(some_specs(), assign_rules(some_specs())),
      R"(parameter             kind         shape      tensors  parameters  optimizer      decay  rate
embed.weight          embedding    [10, 4]          1          40  adamw          yes       1
layers.*.q.weight     matrix       [4, 4]           2          32  muon           yes       1
layers.*.conv.weight  convolution  [4, 1, 2]        1           8  adamw          yes       1
layers.*.experts.up   experts      [3, 8, 4]        1          96  muon           yes       1
layers.*.norm.weight  vector       [4]              1           4  adamw          no        1
layers.*.biases       buffer       [4]              1           4  none (buffer)
head.weight           head         [10, 4]          1          40  adamw          yes       1
all                                                 3         128  muon
all                                                 4          92  adamw
all                                                 1           4  frozen
)");
}

TEST(Rules, SeeEachExpertAsAMatrix) {
  const Matrices m = matrices_of(some_specs()[3]);
  EXPECT_EQ(m.count, 3);
  EXPECT_EQ(m.rows, 8);
  EXPECT_EQ(m.cols, 4);
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/answers.h"

#include <gtest/gtest.h>

namespace tephra {
namespace {

std::vector<std::string> written(std::string_view text) {
  std::vector<std::string> texts;
  for (const Number& n : numbers_in(text)) texts.push_back(n.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Numbers, AreFoundAsTheyAreWritten) {
  EXPECT_EQ(written("from 3 to 12."), (Texts{"3", "12"}));
  EXPECT_EQ(written("1,234,567 and 12,34 and 1,2345"),
            (Texts{"1,234,567", "12", "34", "1", "2345"}));
  EXPECT_EQ(written("-5, +6, \u22127, 10-20, (2)-3, x-4"),
            (Texts{"-5", "+6", "\u22127", "10", "20", "2", "3", "4"}));
  EXPECT_EQ(written("3.50 .5 7. 1e-3 2E5 3e 4ex"),
            (Texts{"3.50", ".5", "7", "1e-3", "2E5", "3", "4"}));
  EXPECT_EQ(written("3/4, 3 / 4, 1/0, 3/4/2024"), (Texts{"3/4", "3 / 4", "1", "0", "3", "4/2024"}));
  EXPECT_EQ(written("$12 -$3.5 \\$7 \u20ac8 50%"),
            (Texts{"$12", "-$3.5", "\\$7", "\u20ac8", "50"}));
  EXPECT_EQ(written("\\frac{3}{4} -\\dfrac{1}{-2} \\frac{x}{2}"),
            (Texts{"\\frac{3}{4}", "-\\dfrac{1}{-2}", "2"}));
  EXPECT_EQ(written("x2 H2O a_1 v1.2"), (Texts{"2"}));
  EXPECT_EQ(written("1{,}000 2\\,000"), (Texts{"1{,}000", "2\\,000"}));
  EXPECT_EQ(written("no number - at $ all"), Texts{});
  EXPECT_EQ(written(""), Texts{});
}

Number only(std::string_view text) {
  const std::vector<Number> numbers = numbers_in(text);
  EXPECT_EQ(numbers.size(), 1u) << text;
  return numbers.empty() ? Number{} : numbers[0];
}

bool same(std::string_view got, std::string_view want, double tolerance = 1e-6) {
  return same_number(only(got), only(want), tolerance);
}

TEST(Numbers, AreTheSameWhateverTheirForm) {
  EXPECT_TRUE(same("1,234", "1234"));
  EXPECT_TRUE(same("007", "7"));
  EXPECT_TRUE(same("7.00", "7"));
  EXPECT_TRUE(same("-0", "0"));
  EXPECT_TRUE(same("3.50", "$3.5"));
  EXPECT_TRUE(same("3/4", "0.75"));
  EXPECT_TRUE(same("\\frac{6}{2}", "3"));
  EXPECT_TRUE(same("1e3", "1000"));
  EXPECT_TRUE(same("-\\frac{1}{2}", "-.5"));
  EXPECT_FALSE(same("-3", "3"));
  EXPECT_FALSE(same("0.5", "0"));
}

TEST(Numbers, AllowForRoundingButNotOfIntegers) {
  EXPECT_TRUE(same("0.33333333", "1/3"));
  EXPECT_FALSE(same("0.333", "1/3"));
  EXPECT_TRUE(same("0.333", "1/3", 0.01));
  EXPECT_FALSE(same("10000001", "10000000"));
  EXPECT_FALSE(same("123456789012345678901234567890", "123456789012345678901234567891"));
  EXPECT_TRUE(same("123,456,789,012,345,678,901", "123456789012345678901"));
  EXPECT_FALSE(same("1e999", "2e999"));
}

TEST(Answers, OfNumbersAreTakenByTheStrongestMark) {
  const auto answer = [](std::string_view text) {
    const std::optional<Number> number = numeric_answer(text);
    return number ? number->text : "none";
  };
  EXPECT_EQ(answer("so 3 + 4 makes 7 of 10"), "10");
  EXPECT_EQ(answer("5 is wrong. The answer is 7 apples, not 8."), "7");
  EXPECT_EQ(answer("ANSWER: 12 + 30 = 42 of 50"), "42");
  EXPECT_EQ(answer("Answer: 1\nNo.\nAnswer: **2**\nchecked 3 times"), "2");
  EXPECT_EQ(answer("Answer:\n  42\n"), "42");
  EXPECT_EQ(answer("answer: 1 #### 1,000 (2)"), "1,000");
  EXPECT_EQ(answer("\\boxed{5} then \\boxed{x = \\frac{1}{2}} #### 3, answer: 4"), "\\frac{1}{2}");
  EXPECT_EQ(answer("\\boxed{none} #### 3"), "3");
  EXPECT_EQ(answer("\\boxed{12"), "12");
  EXPECT_EQ(answer("The answer is unknown; 4 tried"), "4");
  EXPECT_EQ(answer("no idea"), "none");
}

TEST(Answers, OfTextsAreTakenWhole) {
  EXPECT_EQ(exact_answer("  Paris. "), "Paris");
  EXPECT_EQ(exact_answer("I think.\nAnswer: New \t York\nreally"), "New York");
  EXPECT_EQ(exact_answer("#### a b\nc"), "a b");
  EXPECT_EQ(exact_answer("\\boxed{\\text{B}}"), "\\text{B}");
  EXPECT_EQ(exact_answer("the answer is yes"), "the answer is yes");
  EXPECT_EQ(exact_answer("a\n\nb"), "a b");
  EXPECT_EQ(exact_answer(" \n"), "");
}

TEST(Answers, AreGradedByOneRuleOnBothSides) {
  const Grade right =
      grade_answer("2+2=4. Answer: 1,004", "Long text\n#### 1004", Match::numeric, 0);
  EXPECT_TRUE(right.right);
  EXPECT_EQ(right.given, "1,004");
  EXPECT_FALSE(grade_answer("Answer: 1005", "#### 1004", Match::numeric, 0).right);
  EXPECT_FALSE(grade_answer("nothing", "4", Match::numeric, 0).right);
  EXPECT_TRUE(grade_answer("Answer: Paris.", "Paris", Match::exact, 0).right);
  EXPECT_FALSE(grade_answer("Answer: paris", "Paris", Match::exact, 0).right);
}

}  // namespace
}  // namespace tephra

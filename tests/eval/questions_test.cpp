// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/questions.h"

#include <gtest/gtest.h>

#include "tephra/eval/report.h"
#include "tests/eval/scripted_model.h"
#include "tests/support/error_of.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

Tokenizer question_tokenizer() {
  return Tokenizer::load(Path(TEPHRA_GOLDEN_DIR) / "tokenizer-byte-level");
}

class QuestionFiles : public ::testing::Test {
 protected:
  std::vector<Question> read(std::string_view content, Match match = Match::numeric) {
    write_file(scratch_ / "q.jsonl", content);
    return read_questions(scratch_ / "q.jsonl", match);
  }
  // The message behind "FOLDER/".
  std::string refused(std::string_view content, Match match = Match::numeric) {
    const Error error = error_of([&] { read(content, match); });
    EXPECT_EQ(error.fault(), Fault::data);
    return std::string(error.what()).substr(scratch_.path().string().size() + 1);
  }

  Scratch scratch_;
};

TEST_F(QuestionFiles, AreReadLineByLine) {
  const auto questions = read(
      "{\"question\": \"1+1?\", \"answer\": 2}\n\n"
      "{\"prompt\": \"Q: 2+2? A:\", \"answer\": \"text\\n#### 4\", \"id\": \"four\"}\r\n"
      "{\"question\": \"half\", \"answer\": 0.5, \"id\": 7, \"level\": \"ignored\"}");
  ASSERT_EQ(questions.size(), 3u);
  EXPECT_EQ(questions[0].id, "1");
  EXPECT_EQ(questions[0].answer, "2");
  EXPECT_FALSE(questions[0].whole);
  EXPECT_EQ(questions[1].id, "four");
  EXPECT_TRUE(questions[1].whole);
  EXPECT_EQ(questions[1].where, (scratch_ / "q.jsonl").string() + ":3");
  EXPECT_EQ(questions[2].id, "7");
  EXPECT_EQ(questions[2].answer, "0.5");
}

TEST_F(QuestionFiles, NameTheLineThatIsWrong) {
  const std::string good = "{\"question\": \"q\", \"answer\": 1}\n";
  EXPECT_EQ(refused(good + "{\"answer\": 1}"),
            "q.jsonl:2: expected \"question\" or \"prompt\", got neither");
  EXPECT_EQ(refused("{\"question\": \"q\", \"prompt\": \"p\", \"answer\": 1}"),
            "q.jsonl:1: expected \"question\" or \"prompt\", got both");
  EXPECT_EQ(refused(good + "\n[1]"), "q.jsonl:3: expected an object, got an array");
  EXPECT_EQ(refused("{\"question\": \" \", \"answer\": 1}"), "q.jsonl:1: the question is empty");
  EXPECT_EQ(refused("{\"question\": \"q\", \"answer\": \"Paris\"}"),
            "q.jsonl:1: answer: expected a number, got 'Paris'");
  EXPECT_EQ(refused("{\"question\": \"q\", \"answer\": \" \"}", Match::exact),
            "q.jsonl:1: answer: expected a text, got ' '");
  EXPECT_EQ(refused("{\"question\": \"q\", \"answer\": 1, \"id\": \"2\"}\n" + good),
            "q.jsonl:2: the id '2' is taken by a line before");
  EXPECT_EQ(refused("\n"), "q.jsonl: expected a question a line, got none");
  EXPECT_NE(refused("{\"question\": ").find("q.jsonl:1"), std::string::npos);
  EXPECT_NE(refused("{\"question\": \"q\"}").find("q.jsonl:1"), std::string::npos);
  EXPECT_EQ(error_of([&] { read_questions(scratch_ / "none", Match::exact); }).fault(),
            Fault::usage);
}

TEST_F(QuestionFiles, AreAskedAndGraded) {
  const Tokenizer tokenizer = question_tokenizer();
  ScriptedModel model(tokenizer.vocab_size());
  const auto learn = [&](const std::string& prompt, const std::string& text) {
    model.learn(tokenizer.encode(prompt, AddSpecial::before), tokenizer.encode(text));
  };
  const auto questions = read(
      "{\"question\": \"a\", \"answer\": 1000}\n{\"question\": \"b\", \"answer\": 2}\n"
      "{\"prompt\": \"c:\", \"answer\": 3}\n");
  learn("a\n", "The answer is 1,000.");
  learn("b\n", "2 or 3");
  learn("c:", "3");
  const QuestionScore score = evaluate_questions(model, tokenizer, questions, {.ks = {1}});
  EXPECT_EQ(score.score.right, 2);
  EXPECT_EQ(score.problems[0].attempts[0].given, "1,000");
  EXPECT_EQ(score.problems[1].attempts[0].given, "3");
  EXPECT_EQ(score.problems[1].attempts[0].text, "2 or 3");

  learn("Q: b\nA:", "2. Q: more");
  const QuestionScore shaped = evaluate_questions(
      model, tokenizer, std::span(questions).subspan(1, 1),
      {.form = {.render = prompt_template("Q: {question}\\nA:")}, .solve = {.stop = {"Q:"}}});
  EXPECT_EQ(shaped.score.right, 1);
  EXPECT_EQ(shaped.problems[0].attempts[0].text, "2. ");
  EXPECT_EQ(shaped.problems[0].attempts[0].finish, FinishReason::stopped);

  EXPECT_EQ(wrong_attempts(score.problems, 5),
            (scratch_ / "q.jsonl").string() +
                ":2: expected '2', got '3' (4 tokens, eos)\n    b\n  wrote:\n    2 or 3\n");
  EXPECT_EQ(wrong_attempts(score.problems, 0), "");
  const std::string lines = attempts_jsonl(score.problems, [&](size_t i) {
    Json head;
    head["id"] = score.ids[i];
    return head;
  });
  const Json line = Json::parse(lines.substr(0, lines.find('\n')), "line");
  EXPECT_EQ(line.find("id")->string(), "1");
  EXPECT_TRUE(line.find("right")->boolean());
  EXPECT_EQ(line.find("completion")->string(), "The answer is 1,000.");
}

TEST_F(QuestionFiles, GiveAQuestionTheSameSamplesWhereverItStands) {
  const Tokenizer tokenizer = question_tokenizer();
  ScriptedModel model(tokenizer.vocab_size());
  const auto both =
      read("{\"question\": \"aa\", \"answer\": 1}\n{\"question\": \"bb\", \"answer\": 2}");
  QuestionOptions options{.max_new_tokens = 12};
  options.solve.samples = 3;
  options.solve.sampling.temperature = 2.5;  // the script is then only the likeliest of many
  const auto together = evaluate_questions(model, tokenizer, both, options);
  const auto alone = evaluate_questions(model, tokenizer, std::span(both).subspan(1), options);
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(alone.problems[0].attempts[k].text, together.problems[1].attempts[k].text);
  }
  EXPECT_NE(alone.problems[0].attempts[0].text, alone.problems[0].attempts[1].text);
}

TEST_F(QuestionFiles, RefuseWhatMakesNoSense) {
  EXPECT_EQ(message_of([] { prompt_template("no mark"); }),
            "template: expected a text with {question} in it, as in 'Question: "
            "{question}\\nAnswer:', got 'no mark'");
  EXPECT_EQ(prompt_template("\\\\n\\t{question}.")("x"), "\\n\tx.");
  EXPECT_EQ(message_of([] { check_solve_options({.samples = 4}); }),
            "4 samples of each problem would all be the same at temperature 0; give a temperature");
  const Tokenizer tokenizer = question_tokenizer();
  ScriptedModel small(16), narrow(tokenizer.vocab_size(), 20);
  const auto questions = read("{\"question\": \"" + std::string(60, 'x') + "\", \"answer\": 1}");
  EXPECT_EQ(message_of([&] { evaluate_questions(small, tokenizer, questions, {}); }),
            "the tokenizer has ids up to 1023, the model's vocabulary ends at 15; is this its "
            "tokenizer.json?");
  const std::string long_prompt =
      message_of([&] { evaluate_questions(narrow, tokenizer, questions, {}); });
  EXPECT_NE(long_prompt.find("q.jsonl:1: a prompt of "), std::string::npos) << long_prompt;
  EXPECT_NE(long_prompt.find("does not fit the model's limit of 20"), std::string::npos);
}

}  // namespace
}  // namespace tephra

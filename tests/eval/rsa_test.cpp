// SPDX-License-Identifier: Apache-2.0
// Votes, scores and the tree of a Markovian RSA.
#include <gtest/gtest.h>

#include "tephra/eval/rsa_tree.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

Tokenizer letters() { return Tokenizer::load(Path(TEPHRA_GOLDEN_DIR) / "tokenizer-byte-level"); }

TEST(Votes, CountEqualAnswersTogether) {
  EXPECT_EQ(voted_answer("so it is 1,200.50", Match::numeric), "1200.5");
  EXPECT_EQ(voted_answer("\\boxed{\\frac{1}{2}} and 7", Match::numeric),
            voted_answer("answer: 1/2", Match::numeric));
  EXPECT_EQ(voted_answer("no number here", Match::numeric), "");
  EXPECT_EQ(voted_answer("Answer:  two  words.", Match::exact), "two words");
  EXPECT_EQ(voted_answer("no number here"), "no number here");
  EXPECT_EQ(voted_answer("it is 007"), "7");

  const std::vector<std::string> answers = {"3", "", "5", "5", "3", "", "9"};
  const std::vector<Vote> votes = count_votes(answers);
  ASSERT_EQ(votes.size(), 3u);
  EXPECT_EQ(votes[0].answer, "3");  // as many as 5, but said first
  EXPECT_EQ(votes[0].voters, (std::vector<size_t>{0, 4}));
  EXPECT_EQ(votes[1].answer, "5");
  EXPECT_EQ(votes[2].voters, std::vector<size_t>{6});
  EXPECT_TRUE(count_votes(std::vector<std::string>{"", ""}).empty());
}

RsaTrace trace(const std::string& text, std::vector<int64_t> parents = {}) {
  RsaTrace t;
  t.text = text;
  t.tail = text.substr(text.size() / 2);
  t.parents = std::move(parents);
  t.end = EndReason::eos;
  t.usage.prompt_tokens = 10;
  t.usage.cached_tokens = 4;
  t.usage.new_tokens = static_cast<int64_t>(text.size());
  return t;
}

RsaTree small_tree() {
  return {.rounds = {{trace("it is 4"), trace("it is 5"), trace("<b>it is</b> 5")},
                     {trace("so 4", {0, 1}), trace("so 4", {2, 0}), trace("none", {1, 2})}}};
}

TEST(RsaOutcomes, SayWhatSinglesMajorityAndMeanAreWorth) {
  const Tokenizer tokenizer = letters();
  const RsaForm form{.tokenizer = &tokenizer};
  const RsaQuestion q = rsa_question("2 + 2?", "4", form);
  const RsaOutcome o = rsa_outcome(q, small_tree());
  ASSERT_EQ(o.rounds.size(), 2u);
  EXPECT_DOUBLE_EQ(o.rounds[0].mean, 1.0 / 3);
  EXPECT_FALSE(o.rounds[0].majority_right);
  EXPECT_DOUBLE_EQ(o.rounds[1].mean, 2.0 / 3);
  EXPECT_TRUE(o.rounds[1].majority_right);
  EXPECT_EQ(o.rounds[1].answers[2], "");
  EXPECT_EQ(o.chosen(), 0u);

  const std::vector<RsaOutcome> outcomes = {o, o};
  const RsaScore s = summarize_rsa(outcomes);
  EXPECT_EQ(s.questions, 2);
  EXPECT_DOUBLE_EQ(s.single, 1.0 / 3);
  EXPECT_DOUBLE_EQ(s.majority_of_first, 0);
  EXPECT_DOUBLE_EQ(s.mean.back(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(s.majority.back(), 1);
  EXPECT_EQ(s.tokens[1].prompt, 2 * 30);
  EXPECT_NE(rsa_score_table(s).find("majority of round 1"), std::string::npos);

  const RsaQuestion unknown = rsa_question("2 + 2?", "", form);
  const RsaOutcome open = rsa_outcome(unknown, small_tree());
  EXPECT_TRUE(open.rounds[0].right.empty());
  EXPECT_EQ(open.rounds[0].votes[0].answer, "5");
  const RsaOutcome silent = rsa_outcome(unknown, {.rounds = {{trace("no"), trace("idea")}}});
  EXPECT_FALSE(silent.rounds[0].majority.has_value());
  EXPECT_EQ(silent.chosen(), 0u);
}

TEST(RsaOutcomes, ProblemsAreAskedAsTheyAreTrained) {
  const Tokenizer tokenizer = letters();
  const RsaForm form{.tokenizer = &tokenizer};
  EnvironmentEvalOptions options;
  options.levels = parse_environments("addition:2");
  options.tasks = 5;
  const std::vector<RsaQuestion> tasks = rsa_tasks(options, form);
  ASSERT_EQ(tasks.size(), 5u);
  EXPECT_EQ(tasks[3].id, "addition:2/3");
  EXPECT_EQ(tokenizer.decode(tasks[0].problem.prompt, {.keep_special = false}),
            tasks[0].text + "\n");
  const std::vector<std::string> tails = {"Answer: 1", "Answer: 2"};
  const std::string again =
      tokenizer.decode(tasks[0].problem.aggregate(tails), {.keep_special = false});
  EXPECT_TRUE(again.starts_with(tasks[0].text + "\nEnds of 2 attempts"));
  EXPECT_TRUE(again.ends_with("solution.\n"));
  EXPECT_TRUE(tasks[0].right("steps\nAnswer: " + tasks[0].answer));
  EXPECT_FALSE(tasks[0].right("steps\nAnswer: 1" + tasks[0].answer));
  EXPECT_EQ(tasks[0].given("steps\nAnswer:  12 \n"), "12");
  EXPECT_EQ(tasks[0].given("steps that were cut"), "");

  const std::vector<Question> questions = {
      {.where = "q:1", .id = "a", .text = "One?", .whole = false, .answer = "1"},
      {.where = "q:2", .id = "b", .text = "As it is:", .whole = true, .answer = "2"}};
  const std::vector<RsaQuestion> asked = rsa_questions(questions, form);
  EXPECT_EQ(tokenizer.decode(asked[0].problem.prompt, {.keep_special = false}), "One?\n");
  EXPECT_EQ(tokenizer.decode(asked[1].problem.prompt, {.keep_special = false}), "As it is:");
  EXPECT_TRUE(asked[1].right("it is 2"));
  // Nor is it read as a chat whose template opened a think block.
  RsaForm chat = form;
  chat.said = [](std::string_view) { return std::string(); };
  const std::vector<RsaQuestion> in_chat = rsa_questions(questions, chat);
  EXPECT_EQ(in_chat[0].given("it is 1"), "");
  EXPECT_EQ(in_chat[1].given("it is 2"), "2");
  EXPECT_TRUE(in_chat[1].right("it is 2"));
}

TEST(RsaTrees, SayWhenNoTraceGaveAnAnswer) {
  const Tokenizer tokenizer = letters();
  const RsaQuestion question = rsa_question("2 + 2?", "4", {.tokenizer = &tokenizer});
  const RsaOutcome none = rsa_outcome(question, {.rounds = {{trace("well"), trace("hm")}}});
  EXPECT_EQ(rsa_vote_table(question, none), "no trace of the last round gave an answer\n");
  const RsaOutcome one = rsa_outcome(question, {.rounds = {{trace("well"), trace("so 4")}}});
  EXPECT_NE(rsa_vote_table(question, one).find("50.0 %"), std::string::npos);
}

TEST(RsaTrees, AreWrittenWhole) {
  const Tokenizer tokenizer = letters();
  const std::vector<RsaQuestion> questions = {
      rsa_question("</script><script>alert(1)</script> 2 + 2?", "4", {.tokenizer = &tokenizer})};
  const std::vector<RsaOutcome> outcomes = {rsa_outcome(questions[0], small_tree())};
  RsaOptions options;
  options.traces = 3;
  options.candidates = 2;
  options.rounds = 1;
  options.sampling.min_p = 0.05;
  options.stop = {"\n\n"};
  const RsaReport report{.model = "m",
                         .options = options,
                         .questions = questions,
                         .outcomes = outcomes,
                         .seconds = 1.5,
                         .form = Json::Object{{"match", "exact"}}};
  const Json tree = rsa_tree_json(report);
  EXPECT_EQ(tree.find("options")->find("n")->integer(), 3);
  EXPECT_EQ(tree.find("options")->find("min_p")->number(), 0.05);
  EXPECT_EQ(tree.find("options")->find("top_k")->integer(), 0);
  EXPECT_EQ(tree.find("options")->find("stop")->dump(), R"(["\n\n"])");
  EXPECT_EQ(tree.find("options")->find("match")->string(), "exact");
  EXPECT_EQ(tree.find("asked")->integer(), 1);
  EXPECT_EQ(tree.find("tokens")->find("prompt")->integer(), 60);
  EXPECT_DOUBLE_EQ(tree.find("score")->find("mean")->number(), 2.0 / 3);
  const Json& question = tree.find("questions")->array()[0];
  EXPECT_EQ(question.find("chosen")->find("text")->string(), "so 4");
  const Json& second = question.find("rounds")->array()[1].find("traces")->array()[1];
  EXPECT_EQ(second.find("parents")->dump(), "[2,0]");
  EXPECT_EQ(second.find("answer")->string(), "4");
  EXPECT_TRUE(second.find("right")->boolean());
  EXPECT_EQ(rsa_summary_json(report)
                .find("questions")
                ->array()[0]
                .find("rounds")
                ->array()[0]
                .find("traces"),
            nullptr);

  // The journal's lines have all, and make the same tree again; what differs from run to run is not
  // in the tree.
  RsaTree again;
  for (int64_t r = 0; r < 2; ++r) {
    const Json line = rsa_round_json(small_tree().rounds[static_cast<size_t>(r)], options);
    again.rounds.push_back(read_rsa_round(Json::parse(line.dump(), "line"), options, r, "line"));
  }
  const std::vector<RsaOutcome> once_more = {rsa_outcome(questions[0], again)};
  RsaReport repeated = report;
  repeated.outcomes = once_more;
  EXPECT_EQ(rsa_summary_json(repeated).dump(), rsa_summary_json(report).dump());
  repeated.seconds = 9;
  EXPECT_EQ(rsa_tree_json(repeated).dump(), tree.dump());
  EXPECT_EQ(tree.dump().find("cached"), std::string::npos);
  EXPECT_NE(rsa_summary_json(report).find("tokens")->find("cached"), nullptr);

  const std::string page = rsa_tree_page(tree);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>\\u003cscript>alert(1)"), std::string::npos);
  EXPECT_EQ(page.find("@TREE@"), std::string::npos);
  // Nothing from outside: the only address is the name of SVG.
  for (size_t at = page.find("http"); at != std::string::npos; at = page.find("http", at + 1)) {
    const std::string_view rest = std::string_view(page).substr(at);
    EXPECT_TRUE(rest.starts_with("http://www.w3.org/2000/svg") || rest.starts_with("http-equiv"))
        << rest.substr(0, 60);
  }
}

TEST(RsaTrees, PagesHaveOnlySoManyBytes) {
  Json questions = Json::Array{};
  for (int i = 0; i < 120; ++i) {
    questions.push_back(Json::Object{{"id", format("q{}", i)}, {"text", std::string(80, '<')}});
  }
  const Json tree = Json::Object{{"model", "m"}, {"questions", std::move(questions)}};
  const auto shown_in = [&](size_t most) {
    const std::string page = rsa_tree_page(tree, most);
    const size_t begin = page.find("{\"all_questions\"");
    const std::string data = page.substr(begin, page.find("</script>", begin) - begin);
    EXPECT_LE(data.size(), most + 100);
    const Json json = Json::parse(data, "page");
    EXPECT_EQ(json.find("all_questions")->integer(), 120);
    EXPECT_EQ(json.find("model")->string(), "m");
    const Json::Array& shown = json.find("questions")->array();
    for (size_t i = 0; i < shown.size(); ++i) {
      EXPECT_EQ(shown[i].dump(), tree.find("questions")->array()[i].dump());
    }
    return shown.size();
  };
  EXPECT_EQ(shown_in(1 << 20), 100u);
  EXPECT_EQ(shown_in(5100), 10u);  // of 500 and some bytes each
  EXPECT_EQ(shown_in(100), 0u);
}

TEST(RsaTrees, AreNotReadFromNonsense) {
  RsaOptions options;
  options.traces = 3;
  options.candidates = 2;
  options.rounds = 1;
  const std::string whole = rsa_round_json(small_tree().rounds[1], options).dump();
  const auto said = [&](const std::string& line) {
    return message_of([&] { read_rsa_round(Json::parse(line, "j:2"), options, 1, "j:2"); });
  };
  const auto with = [&](const std::string& before, const std::string& after) {
    std::string line = whole;
    EXPECT_NE(line.find(before), std::string::npos) << line;
    return said(line.replace(line.find(before), before.size(), after));
  };
  EXPECT_EQ(said(whole), "no error");
  EXPECT_EQ(said(R"({"traces":[]})"), "j:2: expected 3 traces in round 1, got 0");
  for (const char* parents : {"[2,3]", "[-1,0]", "[2,0.5]"}) {
    EXPECT_EQ(with("[2,0]", parents), "j:2: parents: expected numbers of traces");
  }
  EXPECT_EQ(with("[2,0]", "[2]"), "j:2: expected 2 parents in round 1, got 1");
  EXPECT_EQ(with("\"new_tokens\":4", "\"new_tokens\":-4"),
            "j:2: new_tokens: expected no negative number, got -4");

  // Where a trace goes on after its own tail, the ids of that are there, too.
  options.candidates = 1;
  std::vector<RsaTrace> chains = small_tree().rounds[0];
  chains[1].tail_ids = {7, 0, 250000};
  const std::string ids = rsa_round_json(chains, options).dump();
  const auto read = [&](const std::string& line) {
    return read_rsa_round(Json::parse(line, "j:2"), options, 0, "j:2");
  };
  EXPECT_EQ(read(ids)[1].tail_ids, chains[1].tail_ids);
  std::string bad = ids;
  bad.replace(bad.find("250000"), 6, "-1");
  EXPECT_EQ(message_of([&] { read(bad); }), "j:2: tail_ids: expected ids of tokens");
}

TEST(RsaOutcomes, KeepNoTokens) {
  const Tokenizer tokenizer = letters();
  RsaTree tree = small_tree();
  tree.rounds[0][0].tokens.resize(1000);
  tree.rounds[1][2].tail_ids.resize(1000);
  const RsaOutcome o = rsa_outcome(rsa_question("2 + 2?", "4", {.tokenizer = &tokenizer}), tree);
  EXPECT_EQ(o.tree.rounds[0][0].tokens.capacity(), 0u);
  EXPECT_EQ(o.tree.rounds[1][2].tail_ids.capacity(), 0u);
  EXPECT_EQ(o.tree.rounds[1][2].text, "none");
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Chats answered by Markovian RSA, through the API.
#include <gtest/gtest.h>

#include "tephra/serve/api.h"
#include "tests/serve/asking_client.h"
#include "tests/serve/speaking_model.h"

namespace tephra {
namespace {

class RsaApiTest : public ::testing::Test {
 protected:
  RsaApiTest() {
    make_speaking_folder(scratch_.path());
    tokenizer_.emplace(Tokenizer::load(scratch_.path()));
    model_.emplace(*tokenizer_);
    model_->learn("sum", "It is 4.");
    model_->learn("hard", "<think>\nLet me see.\n</think>\n\nIt is 42.");
    model_->learn("odd", "Well</think>so");
    start({});
  }
  void start(ApiLimits limits) {
    ApiOptions options;
    options.model_name = "tiny";
    options.engine.kv_memory = 1 << 20;
    options.limits = limits;
    api_.emplace(*model_, scratch_.path(), std::move(options));
  }
  HttpResponse ask(const std::string& word, const std::string& more) {
    const std::string body =
        format(R"({{"messages": [{{"role": "user", "content": "{}"}}], {}}})", word, more);
    return whole_answer(*api_, json_request("/v1/chat/completions", body), asker_);
  }
  Json ok(const std::string& word, const std::string& more) {
    const HttpResponse r = ask(word, more);
    EXPECT_EQ(r.status, 200) << r.body;
    return Json::parse(r.body, "answer");
  }
  void expect_refused(const std::string& more, const std::string& says, const std::string& param) {
    const HttpResponse r = ask("sum", more);
    EXPECT_EQ(r.status, 400) << r.body;
    const Json json = Json::parse(r.body, "answer");
    EXPECT_NE(json.find("error")->find("message")->string().find(says), std::string::npos)
        << r.body;
    EXPECT_EQ(json.find("error")->find("param")->string(), param) << r.body;
  }
  static const Json& part(const Json& json, std::initializer_list<const char*> path) {
    const Json* here = &json;
    for (const char* name : path) {
      here = here->is_array() ? &here->array().at(static_cast<size_t>(std::atoi(name)))
                              : here->find(name);
      if (here == nullptr) throw std::runtime_error(std::string("no ") + name);
    }
    return *here;
  }

  Scratch scratch_;
  AskingClient asker_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<SpeakingModel> model_;
  std::optional<Api> api_;
};

TEST_F(RsaApiTest, AnswersWithWhatTheMajoritySays) {
  const Json r =
      ok("sum", R"("rsa": {"n": 4, "c": 2, "rounds": 2, "beta": 20, "tau": 5}, "seed": 1)");
  const Json& message = part(r, {"choices", "0", "message"});
  EXPECT_EQ(part(message, {"content"}).string(), "It is 4.");
  // Which trace ended when is for streams: the reply is the same for the same seed.
  EXPECT_EQ(message.find("reasoning_content"), nullptr) << message.dump();
  EXPECT_EQ(part(r, {"choices", "0", "finish_reason"}).string(), "stop");
  EXPECT_EQ(part(r, {"rsa", "votes"}).dump(), R"([{"answer":"4","traces":4}])");
  EXPECT_EQ(part(r, {"rsa", "answer"}).string(), "4");

  // All tokens are counted: those of twelve traces, the first prompt once, the others each.
  const int64_t one =
      part(ok("sum", R"("temperature": 0)"), {"usage", "completion_tokens"}).integer();
  EXPECT_EQ(part(r, {"usage", "completion_tokens"}).integer(), 12 * one);
  int64_t prompts = part(r, {"rsa", "tokens", "0", "prompt"}).integer() / 4;
  for (const char* round : {"1", "2"})
    prompts += part(r, {"rsa", "tokens", round, "prompt"}).integer();
  EXPECT_EQ(part(r, {"usage", "prompt_tokens"}).integer(), prompts);
  EXPECT_GT(part(r, {"usage", "prompt_tokens_details", "cached_tokens"}).integer(), 0);
}

TEST_F(RsaApiTest, KeepsReasoningApartFromAnswers) {
  const Json r = ok("hard", R"("rsa": {"n": 2, "c": 2, "rounds": 1}, "max_tokens": 40,
                               "chat_template_kwargs": {"enable_thinking": true})");
  const Json& message = part(r, {"choices", "0", "message"});
  EXPECT_EQ(part(message, {"content"}).string(), "It is 42.");
  EXPECT_EQ(part(message, {"reasoning_content"}).string(), "Let me see.");
  EXPECT_EQ(part(r, {"rsa", "beta"}).integer(), 40);
  // A trace that is cut while it thinks has no answer, and the reply says why it is empty.
  const Json cut = ok("hard", R"("rsa": {"n": 2, "rounds": 0, "beta": 2},
                                 "chat_template_kwargs": {"enable_thinking": true})");
  EXPECT_EQ(part(cut, {"choices", "0", "finish_reason"}).string(), "length");
  EXPECT_EQ(part(cut, {"choices", "0", "message", "content"}).string(), "");
  EXPECT_EQ(part(cut, {"rsa", "votes"}).dump(), "[]");
}

TEST_F(RsaApiTest, TagsInAnAnswerAreNotReadAgain) {
  const Json r = ok("odd", R"("rsa": {"n": 2, "c": 2, "rounds": 1}, "max_tokens": 40)");
  const Json& message = part(r, {"choices", "0", "message"});
  EXPECT_EQ(part(message, {"content"}).string(), "Well</think>so");
}

TEST_F(RsaApiTest, AChainThatHasEndedItsThinkingGoesOnWithItsAnswer) {
  const std::string thought = "<think>\nA.\n</think>\n\n";
  std::string answer = thought;
  for (int i = 0; i < 40; ++i) answer += "and on it goes, ";
  answer += "so it is 42.";
  model_->learn("long", answer);
  const auto all = static_cast<int64_t>(tokenizer_->encode(answer).size());
  const int64_t beta = all * 6 / 10, tau = all * 45 / 100;
  ASSERT_LT(static_cast<int64_t>(tokenizer_->encode(thought).size()), beta - tau)
      << "the tail is to begin after the thinking";
  const Json r = ok("long", format(R"("rsa": {{"n": 2, "c": 1, "rounds": 1, "beta": {}, "tau": {}}},
                                      "chat_template_kwargs": {{"enable_thinking": true}})",
                                   beta, tau));
  const std::string& content = part(r, {"choices", "0", "message", "content"}).string();
  EXPECT_TRUE(content.ends_with("so it is 42.")) << r.dump();
  EXPECT_EQ(content.find("think>"), std::string::npos) << content;
  EXPECT_EQ(part(r, {"rsa", "answer"}).string(), "42");
  EXPECT_LE(part(r, {"rsa", "tokens", "1", "prompt"}).integer(),
            part(r, {"rsa", "tokens", "0", "prompt"}).integer() + 2 * tau);
}

TEST_F(RsaApiTest, StreamsWhatItDoesAsReasoning) {
  const HttpResponse r =
      ask("sum", R"("rsa": {"n": 3, "c": 2, "rounds": 1, "beta": 20}, "stream": true,
                    "stream_options": {"include_usage": true})");
  EXPECT_EQ(r.content_type, "text/event-stream");
  std::string reasoning, content;
  bool reported = false, used = false;
  std::string_view rest = r.body;
  while (rest.starts_with("data: {")) {
    const size_t end = rest.find("\n\n");
    const Json event = Json::parse(rest.substr(6, end - 6), "event");
    rest.remove_prefix(end + 2);
    used = used || event.find("usage") != nullptr;
    if (event.find("choices")->array().empty()) continue;
    const Json& choice = part(event, {"choices", "0"});
    const Json& delta = part(choice, {"delta"});
    if (const Json* more = delta.find("reasoning_content")) {
      EXPECT_EQ(content, "");
      reasoning += more->string();
    }
    if (const Json* more = delta.find("content")) content += more->string();
    if (!part(choice, {"finish_reason"}).is_null()) {
      reported = part(event, {"rsa", "votes", "0", "traces"}).integer() == 3;
    }
  }
  EXPECT_EQ(rest, "data: [DONE]\n\n");
  EXPECT_EQ(content, "It is 4.");
  EXPECT_TRUE(reasoning.starts_with(
      "3 traces of at most 20 tokens, then 1 round with 2 tails of 10 tokens\n"))
      << reasoning;
  for (const char* line : {"Round 0, trace 1: 4 (", "Round 1, trace 3: 4 ("}) {
    EXPECT_NE(reasoning.find(line), std::string::npos) << reasoning;
  }
  EXPECT_TRUE(reported);
  EXPECT_TRUE(used);
}

TEST_F(RsaApiTest, FitsTracesIntoTheContextWhenNothingIsSaid) {
  const Json r = ok("sum", R"("rsa": {})");
  EXPECT_EQ(part(r, {"rsa", "n"}).integer(), 16);
  EXPECT_EQ(part(r, {"rsa", "c"}).integer(), 4);
  EXPECT_EQ(part(r, {"rsa", "rounds"}).integer(), 2);
  const int64_t beta = part(r, {"rsa", "beta"}).integer();
  const int64_t tau = part(r, {"rsa", "tau"}).integer();
  EXPECT_GT(beta, 1000);
  EXPECT_LE(2 * tau, beta);
  EXPECT_LE(beta + 4 * tau, 4096);
}

TEST_F(RsaApiTest, TellsOnlySettingsThatItTakesBack) {
  for (const char* asked : {R"({"n": 2, "rounds": 0, "beta": 20})",
                            R"({"n": 2, "c": 1, "rounds": 1, "beta": 20, "tau": 5})"}) {
    const Json r = ok("sum", format(R"("rsa": {})", asked));
    Json settings = Json::Object{};
    for (const char* name : {"n", "c", "rounds", "beta", "tau"}) {
      if (const Json* told = part(r, {"rsa"}).find(name)) settings[name] = *told;
    }
    EXPECT_EQ(settings.dump(), Json::parse(asked, "asked").dump());
    ok("sum", format(R"("rsa": {})", settings.dump()));
  }
}

TEST_F(RsaApiTest, RefusesWhatMakesNoSenseOrIsTooMuch) {
  expect_refused(R"("rsa": {"m": 3})", "there is no such field", "rsa.m");
  expect_refused(R"("rsa": 3)", "expected an object", "rsa");
  expect_refused(R"("rsa": {"n": 0})", "from 1 to 128", "rsa.n");
  expect_refused(R"("rsa": {"n": 200})", "from 1 to 128", "rsa.n");
  expect_refused(R"("rsa": {"n": 4, "c": 5})", "from 1 to 4", "rsa.c");
  expect_refused(R"("rsa": {"rounds": 33})", "from 0 to 32", "rsa.rounds");
  expect_refused(R"("rsa": {"beta": 10, "tau": 11})", "from 0 to 10", "rsa.tau");
  expect_refused(R"("rsa": {"beta": 30}, "max_tokens": 20)", "from 1 to 20", "rsa.beta");
  expect_refused(R"("rsa": {"beta": 5000})", "do not fit this server's 4096", "rsa");
  expect_refused(R"("rsa": {"tau": 5000})",
                 "4 tails of 5000 leave no room for a trace in the "
                 "context of 4096; make tails (tau) shorter",
                 "rsa");
  expect_refused(R"("rsa": {"beta": 4000, "tau": 1000})", "do not fit this server's", "rsa");
  expect_refused(R"("rsa": {"n": 128, "rounds": 32, "beta": 3000})",
                 "4224 traces of 3000 tokens are more than the 1048576 tokens", "rsa");
  expect_refused(R"("rsa": {}, "n": 2)", "one answer", "n");
  expect_refused(R"("rsa": {}, "temperature": 0)", "the same", "temperature");
  expect_refused(R"("rsa": {}, "logprobs": true)", "not told", "logprobs");
  expect_refused(R"("rsa": {}, "response_format": {"type": "json_object"})", "not for",
                 "response_format");
  expect_refused(R"("rsa": {}, "tools": [{"type": "function", "function": {"name": "f"}}])",
                 "aggregated", "tools");
  // What is left for a tail, by the server's limit and by the context.
  expect_refused(R"("rsa": {"tau": 900})", "4 tails of 900 tokens leave room for traces of ",
                 "rsa.tau");
  expect_refused(R"("rsa": {"n": 2, "c": 1, "tau": 3000})",
                 "1 tail of 3000 tokens leaves room for traces of ", "rsa.tau");
  // Nobody reads a tail of a first round.
  expect_refused(R"("rsa": {"rounds": 0, "c": 4})", "needs rounds above 0", "rsa.c");
  expect_refused(R"("rsa": {"rounds": 0, "tau": 8})", "needs rounds above 0", "rsa.tau");
  ApiLimits few;
  few.rsa_tokens = 4800;
  start(few);
  expect_refused(R"("rsa": {"tau": 200})",
                 "expected at most the 100 tokens that each of 48 traces has of the 4800 that this "
                 "server allows in all, got 200",
                 "rsa.tau");
  EXPECT_EQ(part(ok("sum", R"("rsa": {"tau": 100})"), {"rsa", "beta"}).integer(), 100);
  ApiLimits none;
  none.rsa_tokens = 0;
  start(none);
  expect_refused(R"("rsa": {})", "does no RSA", "rsa");
}

TEST_F(RsaApiTest, StopsWhenTheClientIsGone) {
  std::string answer;
  for (int i = 0; i < 200; ++i) answer += "and on it goes, ";
  model_->learn("long", answer);
  asker_.left = true;
  const HttpResponse r = ask("long", R"("rsa": {"n": 4, "beta": 3000, "rounds": 0})");
  EXPECT_EQ(r.status, 499);
  api_->wait_until_idle();
  EXPECT_GE(api_->stats().ended[static_cast<int>(EndReason::cancelled)], 1);
}

}  // namespace
}  // namespace tephra

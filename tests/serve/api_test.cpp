// SPDX-License-Identifier: Apache-2.0
// The API without a network: what each request is answered.
#include "tephra/serve/api.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tephra/device/device_failure.h"
#include "tests/serve/asking_client.h"
#include "tests/serve/speaking_model.h"

namespace tephra {
namespace {

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() {
    make_speaking_folder(scratch_.path());
    tokenizer_.emplace(Tokenizer::load(scratch_.path()));
    model_.emplace(*tokenizer_);
    model_->learn("hello", "Good day to you, dear friend.");
    model_->learn("think", "<think>\nLet me see.\n</think>\n\nIt is 4.");
    model_->learn("call",
                  "<zyphra_tool_call>\n<function=add>\n<parameter=a>\n2\n</parameter>\n"
                  "<parameter=b>\n3\n</parameter>\n</function>\n</zyphra_tool_call>");
    model_->learn("quotes",
                  "<zyphra_tool_call>\n<function=add>\n<parameter=b>\n\"3\"\n</parameter>\n"
                  "</function>\n</zyphra_tool_call>");
    start({});
  }

  void start(ApiOptions options) {
    if (options.model_name.empty()) options.model_name = "tiny";
    options.engine.kv_memory = 1 << 20;
    api_.emplace(*model_, scratch_.path(), std::move(options));
  }

  HttpResponse ask(const HttpRequest& request) { return whole_answer(*api_, request, somebody_); }
  HttpResponse post(const std::string& path, const std::string& body) {
    return ask(json_request(path, body));
  }
  HttpResponse get(const std::string& path) {
    HttpRequest r;
    r.method = "GET";
    r.path = path;
    return ask(r);
  }
  Json complete(const std::string& body) {
    const HttpResponse r = post("/v1/completions", body);
    EXPECT_EQ(r.status, 200) << r.body;
    return Json::parse(r.body, "answer");
  }
  Json chat(const std::string& body) {
    const HttpResponse r = post("/v1/chat/completions", body);
    EXPECT_EQ(r.status, 200) << r.body;
    return Json::parse(r.body, "answer");
  }
  std::vector<Json> events_of(const HttpResponse& r) {
    EXPECT_EQ(r.content_type, "text/event-stream");
    std::vector<Json> events;
    std::string_view rest = r.body;
    while (rest.starts_with("data: {")) {
      const size_t end = rest.find("\n\n");
      events.push_back(Json::parse(rest.substr(6, end - 6), "event"));
      rest.remove_prefix(end + 2);
    }
    EXPECT_EQ(rest, "data: [DONE]\n\n");
    return events;
  }
  void expect_refused(const std::string& path, const std::string& body, int status,
                      const std::string& says, const std::string& param = "") {
    const HttpResponse r = post(path, body);
    EXPECT_EQ(r.status, status) << r.body;
    const Json json = Json::parse(r.body, "answer");
    const Json& error = *json.find("error");
    EXPECT_NE(error.find("message")->string().find(says), std::string::npos) << r.body;
    if (!param.empty()) {
      EXPECT_EQ(error.find("param")->string(), param);
    }
  }

  Scratch scratch_;
  AskingClient somebody_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<SpeakingModel> model_;
  std::optional<Api> api_;
};

const Json& at(const Json& json, std::initializer_list<const char*> path) {
  const Json* here = &json;
  for (const char* name : path) {
    here = here->is_array() ? &here->array().at(static_cast<size_t>(std::atoi(name)))
                            : here->find(name);
    if (here == nullptr) throw std::runtime_error(std::string("no ") + name);
  }
  return *here;
}

TEST_F(ApiTest, CompletesAPrompt) {
  const Json r = complete(
      R"({"model": "tiny", "prompt": "<|user|>hello<|assistant|>", "temperature": 0, "max_tokens": 50})");
  EXPECT_EQ(at(r, {"object"}).string(), "text_completion");
  EXPECT_EQ(at(r, {"choices", "0", "text"}).string(), "Good day to you, dear friend.");
  EXPECT_EQ(at(r, {"choices", "0", "finish_reason"}).string(), "stop");
  const int64_t prompt = at(r, {"usage", "prompt_tokens"}).integer();
  EXPECT_EQ(at(r, {"usage", "total_tokens"}).integer(),
            prompt + at(r, {"usage", "completion_tokens"}).integer());
  EXPECT_EQ(at(complete(R"({"prompt": "<|user|>hello<|assistant|>", "max_tokens": 2})"),
               {"choices", "0", "finish_reason"})
                .string(),
            "length");
}

TEST_F(ApiTest, CompletesSeveralPromptsSeveralTimes) {
  const Json r = complete(
      R"({"prompt": ["<|user|>hello<|assistant|>", "<|user|>nobody<|assistant|>"], "n": 2, "max_tokens": 50})");
  ASSERT_EQ(at(r, {"choices"}).array().size(), 4u);
  EXPECT_EQ(at(r, {"choices", "1", "text"}).string(), "Good day to you, dear friend.");
  EXPECT_EQ(at(r, {"choices", "3", "text"}).string(), "");
}

TEST_F(ApiTest, StopsAtStopStringsAndStreams) {
  const HttpResponse r =
      post("/v1/completions",
           R"({"prompt": "<|user|>hello<|assistant|>", "stream": true, "stop": [", dear"],
          "stream_options": {"include_usage": true}, "max_tokens": 50})");
  const std::vector<Json> events = events_of(r);
  std::string text;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    text += at(events[i], {"choices", "0", "text"}).string();
  }
  EXPECT_EQ(text, "Good day to you");
  EXPECT_EQ(at(events[events.size() - 2], {"choices", "0", "finish_reason"}).string(), "stop");
  EXPECT_TRUE(at(events.back(), {"choices"}).array().empty());
  EXPECT_GT(at(events.back(), {"usage", "completion_tokens"}).integer(), 3);
}

TEST_F(ApiTest, EchoesAPromptWithItsLogprobs) {
  const Json r = complete(
      R"({"prompt": [4, 50, 51, 5], "echo": true, "logprobs": 2, "max_tokens": 1, "temperature": 0})");
  const Json& logprobs = at(r, {"choices", "0", "logprobs"});
  const auto& values = at(logprobs, {"token_logprobs"}).array();
  ASSERT_EQ(values.size(), 5u) << "the prompt and one token, though it ends the text";
  EXPECT_TRUE(values[0].is_null());
  EXPECT_LT(values[1].number(), 0);
  EXPECT_GE(at(logprobs, {"top_logprobs", "1"}).object().size(), 2u);
  EXPECT_EQ(at(logprobs, {"tokens"}).array().size(), 5u);
  EXPECT_EQ(at(logprobs, {"text_offset", "0"}).integer(), 0);
  const Json none =
      complete(R"({"prompt": [4, 50, 51, 5], "echo": true, "logprobs": 0, "max_tokens": 0})");
  EXPECT_EQ(at(none, {"choices", "0", "logprobs", "tokens"}).array().size(), 4u);
}

// The bytes of a token as logprobs write it.
std::string bytes_of_token(std::string token) {
  if (!token.starts_with("bytes:")) return token;
  std::string bytes;
  for (size_t i = 6; i < token.size(); i += 4) {  // \\xe6
    bytes += static_cast<char>(std::stoi(token.substr(i + 2, 2), nullptr, 16));
  }
  return bytes;
}

TEST_F(ApiTest, TellsPartsOfCharactersApart) {
  const std::string prompt = "Grüße 漢字 łódź, é!";
  const Json r = complete(
      format(R"({{"prompt": "{}", "echo": true, "logprobs": 5, "max_tokens": 0}})", prompt));
  const Json& logprobs = at(r, {"choices", "0", "logprobs"});
  const auto& tokens = at(logprobs, {"tokens"}).array();
  const auto& offsets = at(logprobs, {"text_offset"}).array();
  std::string joined;
  bool parts = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i].string();
    parts = parts || token.starts_with("bytes:");
    const auto begun =
        std::count_if(joined.begin(), joined.end(), [](char c) { return (c & 0xc0) != 0x80; });
    const std::string bytes = bytes_of_token(token);
    const bool rest = (bytes[0] & 0xc0) == 0x80;
    EXPECT_EQ(offsets[i].integer(), begun - (rest ? 1 : 0)) << token;
    joined += bytes;
    if (i == 0) continue;
    const Json& top = at(logprobs, {"top_logprobs"}).array()[i];
    ASSERT_NE(top.find(token), nullptr) << token;
    EXPECT_EQ(top.find(token)->number(), at(logprobs, {"token_logprobs"}).array()[i].number());
    EXPECT_GE(top.object().size(), 5u) << "none took another's place";
  }
  EXPECT_EQ(joined, prompt);
  EXPECT_TRUE(parts) << "this tokenizer has whole characters";
  EXPECT_EQ(at(r, {"choices", "0", "text"}).string(), prompt);
}

// What lm-evaluation-harness' local-completions sends for a likelihood, and how it reads the
// answer: of each choice token_logprobs[context length : -1], and greedy where each is its top's
// largest.
TEST_F(ApiTest, ScoresContinuationsAsTheHarnessReadsThem) {
  const std::vector<int32_t> context = tokenizer_->encode("<|user|>hello<|assistant|>");
  const std::vector<int32_t> greedy = tokenizer_->encode("Good day");
  const std::vector<int32_t> other = tokenizer_->encode("Bad day!");
  const auto list = [&](std::vector<int32_t> ids) {
    ids.insert(ids.begin(), context.begin(), context.end());
    Json json = Json::Array{};
    for (const int32_t id : ids) json.push_back(int64_t{id});
    return json.dump();
  };
  const std::vector<int32_t> whole = tokenizer_->encode("Good day to you, dear friend.");
  const Json r = complete(R"({"model": "tiny", "prompt": [)" + list(greedy) + "," + list(other) +
                          "," + list(whole) +
                          R"(], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234,
                          "echo": true})");
  const std::vector<size_t> lengths = {greedy.size(), other.size(), whole.size()};
  ASSERT_EQ(at(r, {"choices"}).array().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Json& choice = at(r, {"choices"}).array()[i];
    EXPECT_EQ(at(choice, {"index"}).integer(), static_cast<int64_t>(i));
    const auto& logprobs = at(choice, {"logprobs", "token_logprobs"}).array();
    const auto& top = at(choice, {"logprobs", "top_logprobs"}).array();
    ASSERT_EQ(logprobs.size(), context.size() + lengths[i] + 1) << "also where the text ends";
    ASSERT_EQ(top.size(), logprobs.size());
    bool is_greedy = true;
    double sum = 0;
    for (size_t k = context.size(); k + 1 < logprobs.size(); ++k) {
      double largest = -1e9;
      for (const auto& [_, value] : top[k].object()) largest = std::max(largest, value.number());
      is_greedy = is_greedy && logprobs[k].number() == largest;
      sum += logprobs[k].number();
    }
    EXPECT_EQ(is_greedy, i != 1);
    EXPECT_EQ(sum > -0.01, i != 1) << sum;
  }
}

TEST_F(ApiTest, ChatsAndTellsReasoningApart) {
  const std::string body = R"({"messages": [{"role": "user", "content": "think"}],
      "chat_template_kwargs": {"enable_thinking": true}, "logprobs": true, "top_logprobs": 1)";
  const Json r = chat(body + "}");
  EXPECT_EQ(at(r, {"object"}).string(), "chat.completion");
  EXPECT_EQ(at(r, {"choices", "0", "message", "reasoning_content"}).string(), "Let me see.");
  EXPECT_EQ(at(r, {"choices", "0", "message", "content"}).string(), "It is 4.");
  EXPECT_EQ(at(r, {"choices", "0", "finish_reason"}).string(), "stop");
  EXPECT_GT(at(r, {"choices", "0", "logprobs", "content"}).array().size(), 5u);

  const std::vector<Json> events =
      events_of(post("/v1/chat/completions", body + R"(, "stream": true})"));
  std::string reasoning, content;
  EXPECT_EQ(at(events[0], {"choices", "0", "delta", "role"}).string(), "assistant");
  for (const Json& event : events) {
    const Json& delta = at(event, {"choices", "0", "delta"});
    if (const Json* said = delta.find("reasoning_content")) reasoning += said->string();
    if (const Json* said = delta.find("content")) content += said->string();
  }
  EXPECT_EQ(reasoning, "Let me see.");
  EXPECT_EQ(content, "It is 4.");
  EXPECT_EQ(at(events.back(), {"choices", "0", "finish_reason"}).string(), "stop");
}

TEST_F(ApiTest, TellsToolCalls) {
  const std::string body =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "call"}]}],
      "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}}}])";
  const Json r = chat(body + "}");
  const Json& call = at(r, {"choices", "0", "message", "tool_calls", "0"});
  EXPECT_EQ(at(call, {"function", "name"}).string(), "add");
  EXPECT_EQ(at(call, {"function", "arguments"}).string(), R"({"a":2,"b":"3"})");
  EXPECT_TRUE(at(call, {"id"}).string().starts_with("call_"));
  EXPECT_EQ(at(r, {"choices", "0", "finish_reason"}).string(), "tool_calls");
  EXPECT_TRUE(at(r, {"choices", "0", "message", "content"}).is_null());

  // And the way back: a call and its result in the history.
  const Json next = chat(R"({"messages": [{"role": "user", "content": "call"},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "x", "type": "function",
        "function": {"name": "add", "arguments": "{\"a\": 2}"}}]},
      {"role": "tool", "tool_call_id": "x", "content": "5"},
      {"role": "user", "content": "hello"}]})");
  EXPECT_EQ(at(next, {"choices", "0", "message", "content"}).string(),
            "Good day to you, dear friend.");
}

// A string with limits is JSON in a call that the grammar holds the model to, and only there.
TEST_F(ApiTest, ReadsCallsAsTheyWereAskedFor) {
  const auto arguments = [&](const std::string& choice) {
    const Json r = chat(R"({"messages": [{"role": "user", "content": "quotes"}],
        "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object",
          "properties": {"b": {"type": "string", "maxLength": 3}}}}}],
        "temperature": 0, "tool_choice": ")" +
                        choice + "\"}");
    return at(r, {"choices", "0", "message", "tool_calls", "0", "function", "arguments"}).string();
  };
  EXPECT_EQ(arguments("required"), R"({"b":"3"})");
  EXPECT_EQ(arguments("auto"), R"({"b":"\"3\""})");
}

TEST_F(ApiTest, FindsACachedPrefix) {
  const std::string body =
      R"({"prompt": "<|user|>hello, and a long text behind it that fills some blocks of the cache<|assistant|>"})";
  EXPECT_EQ(at(complete(body), {"usage", "prompt_tokens_details", "cached_tokens"}).integer(), 0);
  EXPECT_GE(at(complete(body), {"usage", "prompt_tokens_details", "cached_tokens"}).integer(), 16);
}

TEST_F(ApiTest, ReadsAPromptOnceForItsAnswers) {
  const auto cached = [&] {
    const std::string text = get("/metrics").body, name = "\ntephra_cached_prompt_tokens_total ";
    return std::stoll(text.substr(text.find(name) + name.size()));
  };
  const int64_t before = cached();
  const Json r = complete(R"({"prompt": "short", "n": 4, "max_tokens": 2})");
  const int64_t prompt = at(r, {"usage", "prompt_tokens"}).integer();
  // The figures are those of the last whole step.
  for (int tries = 0; tries < 500 && cached() - before != 3 * prompt; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(cached() - before, 3 * prompt);
  EXPECT_EQ(at(r, {"usage", "prompt_tokens_details", "cached_tokens"}).integer(), 0);
}

TEST_F(ApiTest, RefusesWhatIsWrong) {
  const std::string path = "/v1/completions";
  expect_refused(path, "{", 400, "the body");
  expect_refused(path, "[1]", 400, "expected an object");
  expect_refused(path, "{}", 400, "prompt: expected");
  expect_refused(path, R"({"prompt": "x", "temprature": 1})", 400, "did you mean temperature?",
                 "temprature");
  expect_refused(path, R"({"prompt": "x", "temperature": -1})", 400, "from 0 to", "temperature");
  expect_refused(path, R"({"prompt": "x", "temperature": "hot"})", 400, "a string", "temperature");
  expect_refused(path, R"({"prompt": "x", "top_p": 0})", 400, "above 0", "top_p");
  expect_refused(path, R"({"prompt": "x", "n": 0})", 400, "from 1 to", "n");
  expect_refused(path, R"({"prompt": "x", "n": 1.5})", 400, "an integer", "n");
  expect_refused(path, R"({"prompt": ["x", "y"], "n": 100})", 400, "more than the 128", "prompt");
  expect_refused(path, R"({"prompt": [1, 99999999]})", 400, "expected an id");
  expect_refused(path, R"({"prompt": [[]]})", 400, "the prompt is empty");
  expect_refused(path, R"({"prompt": "x", "max_tokens": 100000})", 400, "room for 4096",
                 "max_tokens");
  expect_refused(path, R"({"prompt": "x", "stop": ""})", 400, "1 to 1024", "stop");
  expect_refused(path, R"({"prompt": "x", "logit_bias": {"abc": 1}})", 400, "token ids");
  expect_refused(path, R"({"prompt": "x", "logit_bias": {"5": 1, "05": 2}})", 400, "got '05'");
  expect_refused(path, R"({"prompt": "x", "max_tokens": 2, "max_completion_tokens": 3})", 400,
                 "says 3 where max_tokens says 2", "max_completion_tokens");
  expect_refused(path, R"({"prompt": "x", "logit_bias": {"99999": 1}})", 400,
                 "none of the model's");
  expect_refused(path, R"({"prompt": "x", "model": "gpt-4"})", 404, "there is no model", "model");
  const std::string chat = "/v1/chat/completions";
  expect_refused(chat, R"({"messages": []})", 400, "at least one", "messages");
  expect_refused(chat, R"({"messages": [{"role": "king", "content": "x"}]})", 400, "got 'king'");
  expect_refused(chat, R"({"messages": [{"role": "user"}]})", 400, "expected a text");
  expect_refused(chat, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
                 400, "reads text alone");
  expect_refused(chat,
                 R"({"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"})",
                 400, "no tools are given", "tool_choice");
  expect_refused("/v1/nothing", "{}", 404, "there is nothing at");
  HttpRequest r;
  r.method = "POST";
  r.path = path;
  r.body = R"({"prompt": "x"})";
  EXPECT_EQ(ask(r).status, 415);
}

TEST_F(ApiTest, NamesTheMethodsOfAPathThatIsThere) {
  const std::vector<std::pair<std::string, std::string>> paths = {
      {"/", "GET, HEAD"},
      {"/health", "GET, HEAD"},
      {"/metrics", "GET, HEAD"},
      {"/v1/models", "GET, HEAD"},
      {"/v1/models/tiny", "GET, HEAD"},
      {"/v1/completions", "POST"},
      {"/v1/chat/completions", "POST"},
      {"/v1/indexes", "GET, HEAD, POST"},
      {"/v1/indexes/a", "GET, HEAD, DELETE"},
      {"/v1/indexes/a/query", "POST"},
      {"/v1/memories", "GET, HEAD"},
      {"/v1/memories/a", "GET, HEAD, DELETE"},
      {"/v1/memories/a/query", "POST"}};
  ApiOptions options;
  options.pages.push_back({.path = "/", .content_type = "text/html", .body = "a page"});
  start(std::move(options));
  for (const auto& [path, methods] : paths) {
    HttpRequest request = json_request(path, "{}");
    request.method = "PATCH";
    const HttpResponse r = ask(request);
    EXPECT_EQ(r.status, 405) << path;
    EXPECT_NE(r.body.find(path + " does not take PATCH"), std::string::npos) << r.body;
    const std::pair<std::string, std::string> allow{"Allow", methods};
    EXPECT_NE(std::find(r.headers.begin(), r.headers.end(), allow), r.headers.end()) << path;
  }
  expect_refused("/", "{}", 405, "does not take POST");
  HttpRequest endless = json_request("/", "{}");
  endless.method = std::string(5000, 'A');
  EXPECT_LT(ask(endless).body.size(), 300u) << "of which no more is repeated than tells it";
  EXPECT_EQ(get("/").body, "a page");
}

TEST_F(ApiTest, ListsItsModelItsHealthAndItsFigures) {
  EXPECT_EQ(at(Json::parse(get("/v1/models").body, "models"), {"data", "0", "id"}).string(),
            "tiny");
  EXPECT_EQ(get("/v1/models/tiny").status, 200);
  EXPECT_EQ(get("/v1/models/other").status, 404);
  EXPECT_EQ(get("/health").status, 200);
  complete(R"({"prompt": "<|user|>hello<|assistant|>"})");
  const std::string text = get("/metrics").body;
  EXPECT_NE(text.find("tephra_http_requests_total{path=\"/v1/completions\",status=\"200\"} 1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("tephra_time_to_first_token_seconds_count 1"), std::string::npos);
  api_->drain();
  EXPECT_EQ(get("/health").status, 503);
  expect_refused("/v1/completions", R"({"prompt": "x"})", 503, "shutting down");
}

TEST_F(ApiTest, GoesOnAfterAPassThatDidNotFit) {
  const std::string prompt = R"({"prompt": "<|user|>hello<|assistant|>"})";
  model_->before_pass = [] { throw Error(Fault::device, "out of memory on gpu:0"); };
  expect_refused("/v1/completions", prompt, 500, "out of memory");
  EXPECT_FALSE(api_->failure());
  model_->before_pass = [] {};
  complete(prompt);
}

TEST_F(ApiTest, EndsWithADeviceThatFailed) {
  const std::string prompt = R"({"prompt": "<|user|>hello<|assistant|>", "n": 3})";
  int passes = 0;
  model_->before_pass = [&] {
    if (++passes == 3) throw DeviceFailure("a kernel failed", "look at it");
  };
  expect_refused("/v1/completions", prompt, 500, "a kernel failed");
  const std::optional<Error> failure = api_->failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->fault(), Fault::device);
  EXPECT_EQ(failure->hint(), "look at it");
  // The device is not asked again, and nobody waits for it.
  expect_refused("/v1/completions", prompt, 500, "a kernel failed");
  expect_refused("/v1/chat/completions",
                 R"({"messages": [{"role": "user", "content": "hello"}], "rsa": {}})", 500,
                 "a kernel failed");
  api_->wait_until_idle();
  EXPECT_EQ(passes, 3);
}

TEST_F(ApiTest, AsksForAKey) {
  write_file(scratch_ / "keys", "# keys\n\nsecret-one\n  secret-two  \n");
  ApiOptions options;
  options.keys = ApiKeys::load(scratch_ / "keys");
  start(std::move(options));
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/v1/models").status, 401);
  for (const auto& [value, status] :
       std::vector<std::pair<std::string, int>>{{"Bearer secret-two", 200},
                                                {"bearer secret-two", 200},
                                                {"Bearer secret", 401},
                                                {"secret-one", 401},
                                                {"Bearer ", 401}}) {
    HttpRequest r;
    r.method = "GET";
    r.path = "/v1/models";
    r.headers = {{"authorization", value}};
    EXPECT_EQ(ask(r).status, status) << value;
  }
}

TEST_F(ApiTest, LetsOnlySoManyWait) {
  ApiOptions options;
  options.waiting = 1;
  options.engine.sequences = 2;
  start(std::move(options));
  // So many never may, so that trying again is no advice.
  const std::string never = "4 answers at once are more than the 3 that this server makes";
  expect_refused("/v1/completions", R"({"prompt": "x", "n": 4})", 400, "n: " + never);
  expect_refused("/v1/completions", R"({"prompt": ["x", "x", "x", "x"]})", 400, "prompt: " + never);
  expect_refused("/v1/chat/completions",
                 R"({"messages": [{"role": "user", "content": "x"}], "rsa": {"n": 4}})", 400,
                 "rsa.n: " + never);
  complete(R"({"prompt": "x", "n": 3})");

  model_->learn("long", std::string(20000, 'x'));
  const HttpRequest long_ones = json_request(
      "/v1/completions",
      R"({"prompt": "<|user|>long<|assistant|>", "max_tokens": 4000, "n": 2, "stream": true})");
  const HttpResponse running = api_->handle(long_ones, somebody_);  // nobody reads it yet
  const HttpResponse r = post("/v1/completions", R"({"prompt": "x", "n": 2})");
  EXPECT_EQ(r.status, 429) << r.body;
  EXPECT_NE(r.body.find("try again soon"), std::string::npos) << r.body;
  EXPECT_EQ(r.headers.at(0).first, "Retry-After");
}

TEST_F(ApiTest, CancelsWhenTheClientIsGone) {
  somebody_.left = true;
  model_->learn("long", std::string(20000, 'x'));
  const HttpResponse r =
      post("/v1/completions", R"({"prompt": "<|user|>long<|assistant|>", "max_tokens": 4000})");
  EXPECT_NE(r.status, 200);
  api_->wait_until_idle();
  EXPECT_EQ(api_->stats().ended[static_cast<int>(EndReason::cancelled)], 1);
  EXPECT_EQ(api_->stats().blocks_held, 0);
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// A server on the network and clients that mean ill or do badly: each gets its 4xx with a JSON
// error, or is let go, and the server goes on for the others.
#include <gtest/gtest.h>

#include <thread>

#include "tephra/base/clock.h"
#include "tephra/base/format.h"
#include "tephra/serve/api.h"
#include "tephra/serve/chat_page.h"
#include "tests/serve/speaking_model.h"
#include "tests/support/http_client.h"

namespace tephra {
namespace {

class HostileClients : public ::testing::Test {
 protected:
  HostileClients() {
    make_speaking_folder(scratch_.path());
    tokenizer_.emplace(Tokenizer::load(scratch_.path()));
    model_.emplace(*tokenizer_);
    model_->learn("hello", "Good day to you.");
    model_->learn("long", std::string(20000, 'x'));
  }

  void start(ApiOptions api = {}, HttpOptions http = {}) {
    api.model_name = "tiny";
    api.engine.kv_memory = 1 << 20;
    api.pages.push_back(chat_page());
    api_.emplace(*model_, scratch_.path(), std::move(api));
    http.port = 0;
    http.limits.body_bytes = 1 << 20;
    server_.emplace(
        http,
        [this](const HttpRequest& r, const HttpClientConnection& c) { return api_->handle(r, c); },
        Api::refusal);
  }

  HttpAnswer send(const std::string& bytes) {
    HttpTestClient client(server_->port());
    client.send(bytes);
    return client.answer();
  }
  HttpAnswer post(const std::string& path, const std::string& body) {
    return send(HttpTestClient::post(path, body));
  }
  void expect_alive() {
    const HttpAnswer a = post("/v1/completions", R"({"prompt": "<|user|>hello<|assistant|>"})");
    EXPECT_EQ(a.status, 200) << a.body;
  }
  void expect_4xx(const HttpAnswer& a, const std::string& what) {
    EXPECT_GE(a.status, 400) << what;
    EXPECT_LT(a.status, 500) << what << ": " << a.body;
    EXPECT_NE(a.head.find("Content-Type: application/json"), std::string::npos) << what;
    try {
      const Json json = Json::parse(a.body, "the answer");
      const Json* error = json.find("error");
      ASSERT_NE(error, nullptr) << what;
      EXPECT_FALSE(error->find("message")->string().empty()) << what;
    } catch (const std::exception& e) {
      ADD_FAILURE() << what << ": " << e.what();
    }
  }

  Scratch scratch_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<SpeakingModel> model_;
  std::optional<Api> api_;
  std::optional<HttpServer> server_;
};

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_F(HostileClients, BodiesOfEveryWrongKindGetAJsonError) {
  start();
  const std::vector<std::string> bodies = {
      "",
      "null",
      "42",
      "\"prompt\"",
      "[]",
      "{}{}",
      "{\"prompt\": \"x\"",
      "{\"prompt\": \"x\",}",
      "{'prompt': 'x'}",
      "{\"prompt\": \"x\", \"prompt\": \"y\"}",
      std::string("{\"prompt\": \"\0\"}", 15),
      "{\"prompt\": \"\xff\xfe\"}",
      "{\"prompt\": \"\\ud800\"}",
      "{\"prompt\": \"x\", \"temperature\": NaN}",
      "{\"prompt\": \"x\", \"temperature\": 1e999}",
      "{\"prompt\": \"x\", \"max_tokens\": 99999999999999999999}",
      "{\"prompt\": \"x\", \"max_tokens\": -1}",
      "{\"prompt\": \"x\", \"max_tokens\": 1.5}",
      "{\"prompt\": \"x\", \"n\": 1000000}",
      "{\"prompt\": \"x\", \"seed\": 1e400}",
      "{\"prompt\": \"x\", \"logprobs\": 1000}",
      "{\"prompt\": \"x\", \"logprobs\": true}",
      "{\"prompt\": \"x\", \"stop\": [1]}",
      "{\"prompt\": \"x\", \"stop\": {}}",
      "{\"prompt\": \"x\", \"stream\": \"yes\"}",
      "{\"prompt\": \"x\", \"stream_options\": {\"include_usage\": true}}",
      "{\"prompt\": \"x\", \"response_format\": {\"type\": \"xml\"}}",
      "{\"prompt\": \"x\", \"response_format\": {\"type\": \"json_schema\"}}",
      "{\"prompt\": \"x\", \"logit_bias\": {\"-1\": 5}}",
      "{\"prompt\": \"x\", \"logit_bias\": [1]}",
      "{\"prompt\": \"x\", \"__proto__\": {}}",
      "{\"prompt\": {}}",
      "{\"prompt\": []}",
      "{\"prompt\": [[]]}",
      "{\"prompt\": [-1]}",
      "{\"prompt\": [2147483648]}",
      "{\"prompt\": [1, \"x\"]}",
      "{\"prompt\": [[1], 2]}",
      "{\"prompt\": [[[1]]]}",
      "{\"prompt\": " + repeated("[", 100000) + repeated("]", 100000) + "}",
      repeated("{\"a\":", 50000),
      "{\"prompt\": \"" + repeated("long words ", 20000) + "\"}",
      "{\"prompt\": \"x\", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": "
      "{\"name\": \"x\", \"schema\": {\"$ref\": \"#\"}}}}",
      "{\"prompt\": \"x\", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": "
      "{\"name\": \"x\", \"schema\": {\"type\": \"string\", \"pattern\": \"(a*)*(((\"}}}}",
  };
  for (const std::string& body : bodies) {
    expect_4xx(post("/v1/completions", body), "completions: " + body.substr(0, 100));
    expect_4xx(post("/v1/chat/completions", body), "chat: " + body.substr(0, 100));
  }
  expect_alive();
}

TEST_F(HostileClients, ChatsOfEveryWrongKindGetAJsonError) {
  start();
  const std::vector<std::string> fields = {
      R"("messages": null)",
      R"("messages": "hello")",
      R"("messages": [[]])",
      R"("messages": [{"role": 1, "content": "x"}])",
      R"("messages": [{"role": "user", "content": 5}])",
      R"("messages": [{"role": "user", "content": [{"type": "text"}]}])",
      R"("messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}])",
      R"("messages": [{"role": "assistant", "tool_calls": "x"}])",
      R"("messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}])",
      R"("messages": [{"role": "user", "content": "x"}], "tools": {})",
      R"("messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}])",
      R"("messages": [{"role": "user", "content": "x"}], "tool_choice": "required")",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "a>b"}}])",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "a\nb"}}])",
      R"("messages": [{"role": "user", "content": "x"}], "tool_choice": "required",
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
         "properties": {"a>": {"type": "integer"}}}}}])",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": 5}}])",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {
         "properties": []}}}])",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {
         "properties": 5}}}])",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {
         "properties": {"a": 5}}}}])",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {
         "properties": {"a": null}}}}])",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {
         "properties": {"a": {}, "b": [1]}}}}])",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {
         "required": "a"}}}])",
      R"("messages": [{"role": "user", "content": "x"}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {
         "properties": {"a": {}}, "required": ["a", 5]}}}])",
      R"("messages": [{"role": "user", "content": "x"}], "tool_choice": "required",
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {
         "properties": {"a": {}}, "required": ["b"]}}}])",
      R"("messages": [{"role": "user", "content": "x"}], "top_logprobs": 5)",
      R"("messages": [{"role": "user", "content": "x"}], "reasoning_effort": "extreme")",
      R"("messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": [])",
      R"("messages": [{"role": "user", "content": "x"}], "modalities": ["audio"])",
      R"("messages": [{"role": "user", "content": "x"}], "max_tokens": 100000)",
  };
  for (const std::string& field : fields) {
    expect_4xx(post("/v1/chat/completions", "{" + field + "}"), field);
  }
  expect_alive();
}

TEST_F(HostileClients, ToolsThatMakeSenseAreTaken) {
  start();
  for (const char* parameters :
       {"null", "{}", R"({"properties": null, "required": null})", R"({"properties": {"a": true}})",
        R"({"properties": {"a": {"type": "integer"}}, "required": ["a"]})"}) {
    const HttpAnswer a = post("/v1/chat/completions", format(R"({{"messages": [
        {{"role": "user", "content": "hello"}}], "tools": [{{"type": "function", "function":
        {{"name": "f", "parameters": {}}}}}]}})",
                                                             parameters));
    EXPECT_EQ(a.status, 200) << parameters << ": " << a.body;
  }
}

TEST_F(HostileClients, WhatTheTemplateCannotWriteGetsAJsonError) {
  write_file(scratch_.path() / "chat_template.jinja",
             "{% for n in notes %}{{ n }}{% endfor %}{% for t in tools or [] %}"
             "{% for p in t.function.parameters.properties.a.enum %}{{ p }}{% endfor %}{% endfor %}"
             "<|user|>hello<|assistant|>");
  start();
  const auto ask = [&](const std::string& more) {
    return post("/v1/chat/completions",
                R"({"messages": [{"role": "user", "content": "x"}], )" + more + "}");
  };
  const std::string values = R"("chat_template_kwargs": {"notes": 5})",
                    tool = R"("tools": [{"type": "function", "function": {"name": "f",
                       "parameters": {"properties": {"a": {"enum": 5}}}}}])";
  for (const std::string& more : {values, tool, values + R"(, "stream": true)"}) {
    const HttpAnswer a = ask(more);
    expect_4xx(a, more);
    EXPECT_NE(a.body.find("chat_template.jinja"), std::string::npos) << a.body;
  }
  EXPECT_EQ(ask(R"("chat_template_kwargs": {"notes": []})").status, 200);
  expect_alive();
}

TEST_F(HostileClients, WrongHttpGetsAJsonError) {
  start();
  const std::vector<std::string> requests = {
      "nonsense\r\n\r\n",
      "GET\r\n\r\n",
      "GET / HTTP/1.1 extra\r\n\r\n",
      "GET noslash HTTP/1.1\r\n\r\n",
      "GET /%zz HTTP/1.1\r\n\r\n",
      "GET /%00 HTTP/1.1\r\n\r\n",
      "G\x01T / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nno colon\r\n\r\n",
      "GET / HTTP/1.1\r\n: empty\r\n\r\n",
      "GET / HTTP/1.1\r\nA: \x01\r\n\r\n",
      "GET / HTTP/1.1\r\nA: " + std::string(100000, 'a') + "\r\n\r\n",
      "GET /" + std::string(100000, 'a') + " HTTP/1.1\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "POST /v1/completions HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: "
      "chunked\r\n\r\n0\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
      "POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",  // of no type
      "POST /v1/completions HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/jsonx\r\nContent-Length: "
      "2\r\n\r\n{}",
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Encoding: "
      "gzip\r\nContent-Length: 2\r\n\r\n{}",
      "DELETE /v1/models HTTP/1.1\r\n\r\n",
      "GET /v1/completions HTTP/1.1\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
      "GET /../../etc/passwd HTTP/1.1\r\n\r\n",
      "GET /v1/models/%2e%2e/x HTTP/1.1\r\n\r\n",
  };
  for (const std::string& request : requests) expect_4xx(send(request), request.substr(0, 80));
  expect_alive();
}

// A form may turn out too involved only after the answer has begun: still the request's fault.
TEST_F(HostileClients, FormsThatCannotBeFollowedAreTheRequestsFault) {
  start();
  Json properties = Json::Object{};
  for (int i = 0; i < 20000; ++i) properties[format("p{}", i)] = Json::Object{{"type", "null"}};
  const Json schema = Json::Object{{"type", "object"}, {"properties", properties}};
  const std::string body =
      R"({"prompt": "<|user|>hello<|assistant|>", "response_format": {"type": "json_schema",
      "json_schema": {"name": "x", "schema": )" +
      schema.dump() + "}}";
  const HttpAnswer whole = post("/v1/completions", body + "}");
  EXPECT_EQ(whole.status, 400) << whole.body;
  EXPECT_NE(whole.body.find("too many choices at once; make it smaller"), std::string::npos);
  const HttpAnswer stream = post("/v1/completions", body + R"(, "stream": true})");
  EXPECT_NE(stream.body.find("invalid_json_schema"), std::string::npos) << stream.body;
  expect_alive();
}

TEST_F(HostileClients, TypesOfBodiesAreComparedAsTypesAre) {
  start();
  const std::string body = R"({"prompt": "x", "max_tokens": 1})";
  for (const char* type : {"Application/JSON", "application/json; charset=utf-8"}) {
    const std::string head = format(
        "POST /v1/completions HTTP/1.1\r\nContent-Type: {}\r\nContent-Encoding: identity\r\n"
        "Content-Length: {}\r\n\r\n",
        type, body.size());
    EXPECT_EQ(send(head + body).status, 200) << type;
  }
}

TEST_F(HostileClients, AClientThatTakesNothingIsLetGo) {
  start({}, {.write_seconds = 0.3});
  // Small buffers, so that the page and a long stream do not fit into them.
  HttpTestClient client(server_->port());
  const int small = 4096;
  ::setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  client.send(repeated(HttpTestClient::get("/"), 400));  // pipelined: 16 MB of answers
  const double begin = steady_seconds();
  EXPECT_TRUE(server_->wait_for_connections(20));
  EXPECT_LT(steady_seconds() - begin, 15);
  expect_alive();
}

TEST_F(HostileClients, AClientThatVanishesFreesItsPlace) {
  start();
  for (const char* stream : {"true", "false"}) {
    {
      HttpTestClient client(server_->port());
      client.send(HttpTestClient::post(
          "/v1/completions",
          std::string(R"({"prompt": "<|user|>long<|assistant|>", "max_tokens": 4000,
          "stream": )") +
              stream + "}"));
      while (api_->stats().running == 0 && api_->stats().new_tokens == 0) std::this_thread::yield();
    }
    EXPECT_TRUE(server_->wait_for_connections(20));
    api_->wait_until_idle();
    EXPECT_EQ(api_->stats().blocks_held, 0);
  }
  expect_alive();
}

TEST_F(HostileClients, MoreClientsThanPlacesAreAllAnswered) {
  ApiOptions options;
  options.waiting = 4;
  options.engine.sequences = 2;
  start(std::move(options), {.connections = 24});
  std::vector<int> counts(600);
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&] {
      const HttpAnswer a =
          post("/v1/completions",
               R"({"prompt": "<|user|>long<|assistant|>", "max_tokens": 300, "stream": true})");
      const std::lock_guard lock(mutex);
      ++counts[static_cast<size_t>(a.status)];
      if (a.status == 200) {
        EXPECT_TRUE(a.body.ends_with("data: [DONE]\n\n"));
      }
      if (a.status == 429 || a.status == 503) {
        EXPECT_NE(a.head.find("Retry-After: 1"), std::string::npos);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counts[200] + counts[429] + counts[503], 40);
  EXPECT_GE(counts[200], 6);
  expect_alive();
}

TEST_F(HostileClients, APageWhoseNameWasMadeToPointHereIsRefused) {
  ApiOptions options;
  options.hosts.emplace().add("Model.Example");
  start(std::move(options));
  const auto answer = [&](const std::string& host, const std::string& path = "/v1/models") {
    return send(format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, host));
  };
  for (const char* known : {"localhost", "LOCALHOST:8080", "localhost.", "127.0.0.1:8080", "[::1]",
                            "[::1]:8080", "192.168.1.7:80", "model.example", "model.example:443"}) {
    EXPECT_EQ(answer(known).status, 200) << known;
  }
  for (const char* foreign :
       {"evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "example",
        "x.model.example", "[::1].evil.example", "[::1", "1234", "evil.example:127.0.0.1", ":8080",
        "127.1"}) {
    const HttpAnswer a = answer(foreign);
    EXPECT_EQ(a.status, 403) << foreign;
    expect_4xx(a, foreign);
  }
  EXPECT_EQ(answer("evil.example", "/").status, 403) << "the page, too";
  EXPECT_EQ(answer("evil.example", "/health").status, 403) << "which says what is served";
  EXPECT_NE(answer("evil.example").body.find("--allow-host"), std::string::npos);
  EXPECT_EQ(send("GET /v1/models HTTP/1.0\r\n\r\n").status, 200) << "no browser";
}

TEST_F(HostileClients, WithoutNamesOfItsOwnAServerGoesByAny) {
  start();
  EXPECT_EQ(send("GET /v1/models HTTP/1.1\r\nHost: proxy.example\r\n\r\n").status, 200);
}

TEST(HostNames, AreNamesWithoutAPort) {
  HostNames names;
  for (const char* wrong : {"", "model.example:80", "http://model.example", "a b"}) {
    EXPECT_THROW(names.add(wrong), Error) << wrong;
  }
  names.add("::1");
  EXPECT_TRUE(names.knows("[::1]:80"));
}

TEST_F(HostileClients, ThePageIsServedWithItsPolicy) {
  start();
  const HttpAnswer a = send(HttpTestClient::get("/"));
  EXPECT_EQ(a.status, 200);
  EXPECT_TRUE(a.body.starts_with("<!doctype html>"));
  EXPECT_NE(a.head.find("Content-Type: text/html; charset=utf-8"), std::string::npos);
  EXPECT_NE(a.head.find("Content-Security-Policy: default-src 'none'; script-src 'sha256-"),
            std::string::npos);
  for (const char* outside : {"src=\"http", "href=\"http", "@import", "url("}) {
    EXPECT_EQ(a.body.find(outside), std::string::npos) << outside;
  }
}

}  // namespace
}  // namespace tephra

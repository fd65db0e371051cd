// SPDX-License-Identifier: Apache-2.0
// Indexes and memories behind the API, over real connections: documents are sent, chats answered
// from them, turns remembered; what is hostile or wrong is refused.
#include <gtest/gtest.h>

#include <thread>

#include "tephra/base/text.h"
#include "tephra/retrieve/index_builder.h"
#include "tephra/retrieve/index_file.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/serve/api.h"
#include "tests/serve/speaking_model.h"
#include "tests/support/http_client.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

constexpr const char* kStory =
    "Mary went to the kitchen. John picked up the football. The weather was fine. John travelled "
    "to "
    "the garden. Sandra took the milk.";

// The folder of a model, a server, and a clock that stands where it is put.
class SourcesTest : public ::testing::Test {
 protected:
  SourcesTest() {
    make_speaking_folder(scratch_ / "model");
    tokenizer_.emplace(Tokenizer::load(scratch_ / "model"));
    model_.emplace(*tokenizer_);
    model_->learn("Passages", "It is in the garden.");
    model_->learn("Earlier", "You spoke of a telescope.");
    model_->learn("I", "How nice.");
    options_.model_name = "tiny";
    options_.engine.kv_memory = 1 << 20;
    options_.sources.memories.folder = scratch_ / "memories";
    options_.sources.memories.clock = [this] { return now_; };
    set_clock("2024-05-10T18:00:00");
    start();
  }

  void start() {
    server_.reset();
    api_.reset();
    api_.emplace(*model_, scratch_ / "model", options_);
    server_.emplace(
        HttpOptions{.port = 0},
        [this](const HttpRequest& r, const HttpClientConnection& c) { return api_->handle(r, c); },
        Api::refusal);
  }
  void set_clock(const std::string& time) { now_ = *parse_time(time); }

  HttpAnswer ask(const std::string& method, const std::string& path, const std::string& body = {}) {
    HttpTestClient client(server_->port());
    std::string request = method + " " + path + " HTTP/1.1\r\nHost: x\r\n";
    if (!body.empty()) {
      request += format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
    }
    client.send(request + "\r\n" + body);
    return client.answer();
  }
  Json ok(const HttpAnswer& answer, int status = 200) {
    EXPECT_EQ(answer.status, status) << answer.body;
    return Json::parse(answer.body, "answer");
  }
  Json chat(const std::string& question, const std::string& more) {
    return ok(ask(
        "POST", "/v1/chat/completions",
        format(R"({{"messages": [{{"role": "user", "content": "{}"}}], {}}})", question, more)));
  }
  void expect_refused(const HttpAnswer& answer, int status, const std::string& says) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_NE(answer.body.find(says), std::string::npos) << answer.body;
  }
  static const Json& at(const Json& json, std::initializer_list<const char*> path) {
    const Json* here = &json;
    for (const char* name : path) {
      here = here->is_array() ? &here->array().at(static_cast<size_t>(std::atoi(name)))
                              : here->find(name);
      if (here == nullptr) throw std::runtime_error(std::string("no ") + name);
    }
    return *here;
  }
  static std::string said(const Json& answer) {
    return at(answer, {"choices", "0", "message", "content"}).string();
  }
  void send_story() {
    ok(ask("POST", "/v1/indexes",
           format(R"({{"name": "story", "documents": [{{"name": "s.txt", "text": "{}"}}]}})",
                  kStory)),
       201);
  }

  Scratch scratch_;
  ApiOptions options_;
  int64_t now_ = 0;
  std::optional<Tokenizer> tokenizer_;
  std::optional<SpeakingModel> model_;
  std::optional<Api> api_;
  std::optional<HttpServer> server_;
};

TEST_F(SourcesTest, TakesDocumentsAndAnswersFromThem) {
  send_story();
  const Json list = ok(ask("GET", "/v1/indexes"));
  EXPECT_EQ(at(list, {"data", "0", "id"}).string(), "story");
  EXPECT_EQ(at(list, {"data", "0", "chunks"}).integer(), 5);
  EXPECT_TRUE(at(list, {"data", "0", "uploaded"}).boolean());

  const Json answer = chat("Where is the football?", R"("retrieve": {"index": "story"})");
  EXPECT_EQ(said(answer), "It is in the garden.");
  const auto& passages = at(answer, {"retrieval", "passages"}).array();
  ASSERT_GE(passages.size(), 2u);
  EXPECT_EQ(at(passages[0], {"document"}).string(), "s.txt");
  EXPECT_EQ(at(passages[0], {"text"}).string(), "John picked up the football.");
  EXPECT_GT(at(answer, {"retrieval", "tokens"}).integer(), 0);
  EXPECT_GT(at(answer, {"usage", "prompt_tokens"}).integer(),
            at(answer, {"retrieval", "tokens"}).integer());

  const Json found =
      ok(ask("POST", "/v1/indexes/story/query", R"({"question": "Who took the milk?", "top": 1})"));
  EXPECT_EQ(at(found, {"passages", "0", "text"}).string(), "Sandra took the milk.");
  EXPECT_EQ(ask("DELETE", "/v1/indexes/story").status, 200);
  expect_refused(ask("GET", "/v1/indexes/story"), 404, "there is no index 'story'");
}

TEST_F(SourcesTest, StreamsSayFirstWhatWasUsed) {
  send_story();
  const HttpAnswer answer = ask("POST", "/v1/chat/completions",
                                R"({"messages": [{"role": "user", "content": "Where is the milk?"}],
                                "stream": true, "retrieve": {"index": "story", "budget": 8}})");
  ASSERT_TRUE(answer.body.starts_with("data: {")) << answer.body;
  const Json first =
      Json::parse(std::string_view(answer.body).substr(6, answer.body.find("\n\n") - 6), "event");
  EXPECT_LE(at(first, {"retrieval", "tokens"}).integer(), 8);
  EXPECT_EQ(at(first, {"retrieval", "budget"}).integer(), 8);
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(answer.body.find("retrieval", answer.body.find("\n\n")), std::string::npos);
}

// A corpus far larger than the context: the prompt is filled up to what the answer needs.
TEST_F(SourcesTest, KeepsToTheContext) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += format("Word{} stands beside football {}. ", i, i % 7);
  ok(ask("POST", "/v1/indexes", format(R"({{"name": "big", "documents": ["{}"]}})", text)), 201);
  for (const int64_t most : {1, 500, 3000}) {
    const Json answer =
        chat("Where is the football?",
             format(R"("max_tokens": {}, "retrieve": {{"index": "big", "budget": 100000}})", most));
    const int64_t prompt = at(answer, {"usage", "prompt_tokens"}).integer();
    EXPECT_LE(prompt + most - 1, 4096);
    EXPECT_GT(at(answer, {"retrieval", "passages"}).array().size(), 20u);
  }
  // No room at all: the question is still answered, and the report says that nothing was used.
  const Json bare =
      chat("Where is the football?", R"("max_tokens": 4070, "retrieve": {"index": "big"})");
  EXPECT_EQ(at(bare, {"retrieval", "passages"}).array().size(), 0u);
  EXPECT_EQ(at(bare, {"retrieval", "budget"}).integer(), 0);
}

TEST_F(SourcesTest, AddsReplacesAndKeepsIndexes) {
  options_.sources.indexes.folder = scratch_ / "indexes";
  start();
  send_story();
  const std::string again = R"({"name": "story", "documents": ["The zebra ate the hat."])";
  expect_refused(ask("POST", "/v1/indexes", again + "}"), 409, "already");
  EXPECT_EQ(
      at(ok(ask("POST", "/v1/indexes", again + R"(, "append": true})"), 201), {"chunks"}).integer(),
      6);
  start();  // as after a restart
  EXPECT_EQ(at(ok(ask("GET", "/v1/indexes/story")), {"chunks"}).integer(), 6);
  EXPECT_EQ(at(ok(ask("POST", "/v1/indexes", again + R"(, "replace": true})"), 201), {"chunks"})
                .integer(),
            1);
  EXPECT_EQ(ask("DELETE", "/v1/indexes/story").status, 200);
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "indexes"));
}

TEST_F(SourcesTest, ServesIndexFilesThatClientsCannotChange) {
  IndexBuilder builder(ChunkOptions{});
  builder.add("s", kStory);
  write_index(scratch_ / "s.index", builder.finish());
  options_.sources.indexes.files = {{"own", scratch_ / "s.index"}};
  start();
  EXPECT_EQ(said(chat("Where is the football?", R"("retrieve": {"index": "own"})")),
            "It is in the garden.");
  expect_refused(ask("DELETE", "/v1/indexes/own"), 409, "stays");
  expect_refused(
      ask("POST", "/v1/indexes", R"({"name": "own", "documents": ["x"], "replace": true})"), 409,
      "the server's own");
  options_.sources.indexes.files = {{"../own", scratch_ / "s.index"}};
  EXPECT_NE(message_of([&] { start(); }).find("expected NAME=FILE"), std::string::npos);
  write_file(scratch_ / "bad.index", "hello");
  options_.sources.indexes.files = {{"own", scratch_ / "bad.index"}};
  EXPECT_NE(message_of([&] { start(); }).find("got another kind of file"), std::string::npos);
}

TEST_F(SourcesTest, RefusesHostileNamesAndBadUploads) {
  for (const char* name : {"", "..", "../x", "a/b", ".hidden", "a b", "\\u0000", "\\u00e9"}) {
    const std::string body = format(R"({{"name": "{}", "documents": ["text"]}})", name);
    expect_refused(ask("POST", "/v1/indexes", body), 400, "name: expected 1 to 64");
    expect_refused(ask("POST", "/v1/chat/completions",
                       format(R"({{"messages": [{{"role": "user", "content": "I"}}],
                                  "memory": "{}"}})",
                              name)),
                   400, "memory: expected 1 to 64");
  }
  expect_refused(ask("GET", "/v1/memories/%2e%2e%2fx"), 404, "");
  expect_refused(ask("GET", "/v1/memories/.."), 400, "expected 1 to 64");
  expect_refused(ask("POST", "/v1/indexes",
                     format(R"({{"name": "{}", "documents": ["x"]}})", std::string(65, 'a'))),
                 400, "name: expected 1 to 64");
  expect_refused(ask("POST", "/v1/indexes", R"({"name": "x", "documents": []})"), 400,
                 "expected a list");
  expect_refused(ask("POST", "/v1/indexes", R"({"name": "x", "documents": [" ... "]})"), 400,
                 "a corpus without a single word");
  expect_refused(ask("POST", "/v1/indexes", R"({"name": "x", "documents": ["a"], "chunk": "x"})"),
                 400, "expected auto, sentences");
  expect_refused(ask("POST", "/v1/indexes", R"({"name": "x", "documets": ["a"]})"), 400,
                 "did you mean");
  expect_refused(ask("PUT", "/v1/indexes", "{}"), 405, "does not take PUT");
  expect_refused(ask("GET", "/v1/indexes/x/y"), 404, "NAME");
  expect_refused(ask("POST", "/v1/chat/completions",
                     R"({"messages": [{"role": "user", "content": "I"}],
                        "retrieve": {"index": "nothing"}})"),
                 404, "there is no index 'nothing'");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "memories"));
}

TEST_F(SourcesTest, BoundsWhatClientsSend) {
  options_.sources.indexes.most_bytes = 2000;
  start();
  std::string text;
  for (int i = 0; i < 200; ++i) text += format("Sentence{} of a text. ", i);
  expect_refused(
      ask("POST", "/v1/indexes", format(R"({{"name": "big", "documents": ["{}"]}})", text)), 413,
      "this server keeps");
  EXPECT_TRUE(at(ok(ask("GET", "/v1/indexes")), {"data"}).array().empty());
}

TEST_F(SourcesTest, RemembersAChat) {
  chat("I bought a telescope.", R"("memory": "ann")");
  set_clock("2024-05-17T18:00:00");
  const Json answer = chat("What did I say about the telescope a week ago?", R"("memory": "ann")");
  EXPECT_EQ(said(answer), "You spoke of a telescope.");
  EXPECT_EQ(at(answer, {"memory", "name"}).string(), "ann");
  EXPECT_GE(at(answer, {"memory", "used"}).integer(), 1);
  EXPECT_NE(at(answer, {"memory", "explanation"}).dump().find("a week ago"), std::string::npos);

  const Json turns = ok(ask("GET", "/v1/memories/ann?turns=3"));
  EXPECT_EQ(at(turns, {"rows"}).integer(), 4);
  EXPECT_EQ(at(turns, {"sessions"}).integer(), 2);
  ASSERT_EQ(at(turns, {"turns"}).array().size(), 3u);
  EXPECT_EQ(at(turns, {"turns", "0", "speaker"}).string(), "assistant");
  EXPECT_EQ(at(turns, {"turns", "0", "text"}).string(), "How nice.");
  EXPECT_EQ(at(turns, {"turns", "2", "time"}).string(), "2024-05-17T18:00:00");

  start();  // as after a restart: it is on the disk
  const Json found = ok(ask("POST", "/v1/memories/ann/query",
                            R"({"chain": [{"op": "f_value", "column": "date",
                                "values": ["2024-05-10"]}]})"));
  EXPECT_EQ(at(found, {"found"}).integer(), 2);
  expect_refused(ask("POST", "/v1/memories/ann/query", R"({"chain": 1})"), 400, "expected a list");
  EXPECT_EQ(at(ok(ask("GET", "/v1/memories")), {"data", "0", "id"}).string(), "ann");
  EXPECT_EQ(ask("DELETE", "/v1/memories/ann").status, 200);
  expect_refused(ask("GET", "/v1/memories/ann"), 404, "there is no memory 'ann'");
}

TEST_F(SourcesTest, AMemoryHoldsAStreamedAnswerWhenTheStreamEnds) {
  const HttpAnswer answer = ask("POST", "/v1/chat/completions",
                                R"({"messages": [{"role": "user", "content": "I sing."}],
                                "stream": true, "memory": {"name": "ben", "k": 3}})");
  ASSERT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  const Json turns = ok(ask("GET", "/v1/memories/ben"));
  EXPECT_EQ(at(turns, {"turns", "1", "text"}).string(), "How nice.");
}

TEST_F(SourcesTest, HoldsAClockThatRunsBackwards) {
  chat("I bought a telescope.", R"("memory": "ann")");
  set_clock("2024-05-09T08:00:00");
  chat("I sold it.", R"("memory": "ann")");
  const Json turns = ok(ask("GET", "/v1/memories/ann"));
  EXPECT_EQ(at(turns, {"turns", "3", "time"}).string(), "2024-05-10T18:00:00");
}

TEST_F(SourcesTest, SaysThatAMemoryIsDamagedOrThatThereAreNone) {
  write_file(scratch_ / "memories" / "bad.tmem", "not a memory at all");
  expect_refused(ask("GET", "/v1/memories/bad"), 500, "cannot be read or written");
  options_.sources.memories.folder.reset();
  start();
  expect_refused(ask("POST", "/v1/chat/completions",
                     R"({"messages": [{"role": "user", "content": "I"}], "memory": "x"})"),
                 400, "--memory-dir");
  EXPECT_FALSE(at(ok(ask("GET", "/v1/memories")), {"enabled"}).boolean());
}

// Many chats over few memories, more than are kept open: nothing is lost or mixed up.
TEST_F(SourcesTest, ChatsSideBySide) {
  options_.sources.memories.most_open = 2;
  start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 5; ++i) {
        const HttpAnswer a =
            ask("POST", "/v1/chat/completions",
                format(R"({{"messages": [{{"role": "user", "content": "I say {} {}"}}],
                           "memory": "m{}"}})",
                       t, i, (t + i) % 4));
        EXPECT_EQ(a.status, 200) << a.body;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t rows = 0;
  for (int m = 0; m < 4; ++m) {
    rows += at(ok(ask("GET", format("/v1/memories/m{}", m))), {"rows"}).integer();
  }
  EXPECT_EQ(rows, 40);
}

}  // namespace
}  // namespace tephra

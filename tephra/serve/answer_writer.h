// SPDX-License-Identifier: Apache-2.0
// Answers as the API says them: one JSON document, or a stream of server-sent events.
#pragma once

#include <functional>
#include <memory>

#include "tephra/serve/answer_source.h"
#include "tephra/serve/api_request.h"
#include "tephra/serve/http_server.h"
#include "tephra/text/chat_parser.h"

namespace tephra {

// Turns the pieces of a generation into the JSON of one kind of completion.
class AnswerWriter {
 public:
  AnswerWriter(const CommonRequest& request, std::string model, const Tokenizer& tokenizer,
               const char* id_prefix);
  virtual ~AnswerWriter() = default;

  // What one piece adds, as events of a stream. Also remembers it for whole().
  virtual std::vector<Json> events(const AnswerPiece& piece) = 0;
  // All answers in one document.
  virtual Json whole() = 0;
  // Sent first in a stream, if anything.
  virtual std::vector<Json> opening() { return {}; }

  // Fields beside the answers: of the one document, or of a stream's first event.
  void attach(Json fields) { attached_ = std::move(fields); }
  // Called with the first answer's text when all are whole, before the client hears of it.
  void on_finish(std::function<void(const std::string&)> call) { on_finish_ = std::move(call); }
  void add_attached(Json& to) const;
  void attach_more(const Json& fields);  // beside those
  void finish() const;

  Json usage() const;
  Json usage_event() const;  // the last event when usage was asked for
  bool streams() const { return stream_; }
  bool tells_usage() const { return include_usage_; }

 protected:
  Json envelope(const char* object) const;  // id, object, created, model
  void count(const AnswerPiece& piece);
  // For logprobs. A part of a character is written by its bytes, bytes:\xe6\xbc, so that different
  // tokens have different texts.
  std::string token_text(int32_t id) const;
  std::string token_bytes(int32_t id) const;  // its own, which need not be UTF-8
  bool is_special(int32_t id) const;          // no answer's text has it

 private:
  virtual const char* event_object() const = 0;
  virtual std::string first_text() const { return {}; }

  const Tokenizer& tokenizer_;
  std::string model_, id_;
  int64_t created_;
  int64_t n_;
  bool stream_, include_usage_;
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, new_tokens_ = 0;
  Json attached_ = Json::Object{};
  std::function<void(const std::string&)> on_finish_;
};

class CompletionWriter : public AnswerWriter {
 public:
  struct Echo {
    std::vector<std::string> texts;  // by prompt; empty: no echo
    std::vector<std::vector<int32_t>> ids;
  };

  CompletionWriter(const CompletionRequest& request, std::string model, const Tokenizer& tokenizer,
                   Echo echo, size_t answers);
  std::vector<Json> events(const AnswerPiece& piece) override;
  Json whole() override;

 private:
  struct Logprobs {
    Json tokens = Json::Array{}, token_logprobs = Json::Array{}, top = Json::Array{},
         offsets = Json::Array{};
    Json json() const;
  };
  struct Answer {
    std::string text;
    Logprobs logprobs;
    int64_t offset = 0;  // in characters
    bool opened = false;
    Json finish;
  };

  const char* event_object() const override { return "text_completion"; }
  void add_token(Answer& a, Logprobs& to, int32_t id, bool in_text,
                 const tephra::Logprobs* logprobs);
  void open(size_t index, Answer& a, std::string& text, Logprobs& logprobs);

  int64_t n_, top_;
  Echo echo_;
  std::vector<Answer> answers_;
};

class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(const ChatRequest& request, std::string model, const Tokenizer& tokenizer,
             const ChatParserOptions& parsing, size_t answers);
  std::vector<Json> events(const AnswerPiece& piece) override;
  Json whole() override;
  std::vector<Json> opening() override;

 private:
  struct Answer {
    ChatParser parser;
    ChatReply reply;
    Json tool_calls = Json::Array{};
    Json logprobs = Json::Array{};
    Json finish;
  };

  const char* event_object() const override { return "chat.completion.chunk"; }
  std::string first_text() const override { return answers_[0].reply.content; }
  Json event(size_t answer, Json delta, Json finish, Json logprobs) const;
  Json token_json(int32_t id, double logprob) const;
  Json logprobs_of(const std::vector<EngineToken>& tokens) const;
  void add_delta(Answer& a, const ChatDelta& delta, Json& told);

  int64_t top_;
  std::vector<Answer> answers_;
};

std::string new_tool_call_id();

// The whole HTTP answer, streamed or not. A client that is gone, or a request that takes longer
// than `seconds`, cancels the generation.
HttpResponse answer(std::shared_ptr<PieceSource> source, std::unique_ptr<AnswerWriter> writer,
                    const CommonRequest& request, const HttpClientConnection& client,
                    double seconds);

}  // namespace tephra

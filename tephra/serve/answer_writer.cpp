// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/answer_writer.h"

#include <algorithm>
#include <ctime>
#include <random>

#include "tephra/base/clock.h"
#include "tephra/base/format.h"
#include "tephra/base/text.h"
#include "tephra/serve/api_error.h"

namespace tephra {
namespace {

constexpr double kPollSeconds = 0.25;     // how soon a client that left is noticed
constexpr double kHeartbeatSeconds = 10;  // keeps proxies from closing a silent stream

std::string random_id(const char* prefix) {
  static thread_local std::mt19937_64 numbers{std::random_device{}()};
  return format("{}{:016x}{:08x}", prefix, numbers(), static_cast<uint32_t>(numbers()));
}

ApiError failure_of(const EngineEnd& end) {
  if (end.reason == EndReason::cancelled) {
    return {503, "the server stopped before the answer was whole"};
  }
  if (end.reason == EndReason::form) {
    return {400, end.error, "response_format", "invalid_json_schema"};
  }
  return {500, "the answer failed: " + end.error};
}

bool failed(const EngineEnd& end) {
  return end.reason == EndReason::cancelled || has_error(end.reason);
}

std::string server_sent(const Json& event) { return "data: " + event.dump() + "\n\n"; }

// Waits for the next piece as long as somebody wants it.
class Reader {
 public:
  Reader(std::shared_ptr<PieceSource> source, const HttpClientConnection& client, double seconds)
      : source_(std::move(source)), client_(client), until_(steady_seconds() + seconds) {}

  bool finished() const { return source_->finished(); }
  // Nothing when `patience` seconds are over.
  std::optional<AnswerPiece> next(double patience) {
    const double enough = steady_seconds() + patience;
    for (;;) {
      check();
      const double wait = std::min(kPollSeconds, std::max(0.0, enough - steady_seconds()));
      if (auto piece = source_->next(wait)) return piece;
      if (steady_seconds() >= enough) return std::nullopt;
    }
  }

 private:
  std::shared_ptr<PieceSource> source_;
  // Whether anybody still waits, now and then: an answer may keep coming all the time.
  void check() {
    const double now = steady_seconds();
    if (now < next_check_) return;
    next_check_ = now + kPollSeconds;
    if (client_.gone()) throw ApiError(499, "the client is gone");
    if (now > until_) {
      throw ApiError(503, "the answer took longer than this server allows", "", "timeout");
    }
  }

  const HttpClientConnection& client_;
  double until_;
  double next_check_ = 0;
};

// The body of a streamed answer, a piece at a time.
class EventStream {
 public:
  EventStream(Reader reader, std::unique_ptr<AnswerWriter> writer)
      : reader_(std::move(reader)), writer_(std::move(writer)) {}

  std::optional<std::string> next() {
    if (over_) return std::nullopt;
    std::string out;
    try {
      if (!opened_) {
        opened_ = true;
        std::vector<Json> opening = writer_->opening();
        if (!opening.empty()) writer_->add_attached(opening[0]);
        for (const Json& event : opening) out += server_sent(event);
        if (!out.empty()) return out;
      }
      auto piece = reader_.next(kHeartbeatSeconds);
      if (!piece) return ": waiting\n\n";
      // What has come meanwhile goes in the same packet.
      for (; piece; piece = reader_.finished() ? std::nullopt : reader_.next(0)) add(*piece, out);
      if (!over_ && reader_.finished()) close(out);
    } catch (const ApiError& e) {
      over_ = true;
      out += server_sent(e.json());
    }
    return out;
  }

 private:
  void add(const AnswerPiece& piece, std::string& out) {
    if (piece.end && failed(*piece.end)) throw failure_of(*piece.end);
    for (const Json& event : writer_->events(piece)) out += server_sent(event);
  }
  void close(std::string& out) {
    writer_->finish();
    over_ = true;
    if (writer_->tells_usage()) out += server_sent(writer_->usage_event());
    out += "data: [DONE]\n\n";
  }

  Reader reader_;
  std::unique_ptr<AnswerWriter> writer_;
  bool opened_ = false, over_ = false;
};

}  // namespace

AnswerWriter::AnswerWriter(const CommonRequest& request, std::string model,
                           const Tokenizer& tokenizer, const char* id_prefix)
    : tokenizer_(tokenizer),
      model_(std::move(model)),
      id_(random_id(id_prefix)),
      created_(static_cast<int64_t>(std::time(nullptr))),
      n_(request.n),
      stream_(request.stream),
      include_usage_(request.include_usage) {}

Json AnswerWriter::envelope(const char* object) const {
  return Json::Object{{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

// A prompt with n answers counts once.
void AnswerWriter::count(const AnswerPiece& piece) {
  if (!piece.end) return;
  new_tokens_ += piece.end->usage.new_tokens;
  if (static_cast<int64_t>(piece.answer) % n_ != 0) return;
  prompt_tokens_ += piece.end->usage.prompt_tokens;
  cached_tokens_ += piece.end->usage.cached_tokens;
}

void AnswerWriter::add_attached(Json& to) const {
  for (const auto& [name, value] : attached_.object()) to[name] = value;
}

void AnswerWriter::attach_more(const Json& fields) {
  for (const auto& [name, value] : fields.object()) attached_[name] = value;
}

void AnswerWriter::finish() const {
  if (on_finish_) on_finish_(first_text());
}

Json AnswerWriter::usage() const {
  Json details = Json::Object{{"cached_tokens", cached_tokens_}};
  return Json::Object{{"prompt_tokens", prompt_tokens_},
                      {"completion_tokens", new_tokens_},
                      {"total_tokens", prompt_tokens_ + new_tokens_},
                      {"prompt_tokens_details", std::move(details)}};
}

Json AnswerWriter::usage_event() const {
  Json event = envelope(event_object());
  event["choices"] = Json::Array{};
  event["usage"] = usage();
  return event;
}

std::string AnswerWriter::token_text(int32_t id) const {
  const std::string bytes = tokenizer_.bytes(id);
  if (!is_utf8(bytes)) {
    std::string text = "bytes:";
    for (const char c : bytes) text += format("\\x{:02x}", static_cast<unsigned char>(c));
    return text;
  }
  const std::string text = tokenizer_.decode(std::span(&id, 1));
  return text.empty() ? tokenizer_.token(id) : text;
}

std::string AnswerWriter::token_bytes(int32_t id) const {
  std::string bytes = tokenizer_.bytes(id);
  return is_utf8(bytes) ? token_text(id) : bytes;
}

bool AnswerWriter::is_special(int32_t id) const { return tokenizer_.is_special(id); }

std::string new_tool_call_id() { return random_id("call_"); }

HttpResponse answer(std::shared_ptr<PieceSource> source, std::unique_ptr<AnswerWriter> writer,
                    const CommonRequest& request, const HttpClientConnection& client,
                    double seconds) {
  Reader reader(std::move(source), client, seconds);
  if (request.stream) {
    auto stream = std::make_shared<EventStream>(std::move(reader), std::move(writer));
    HttpResponse response{.content_type = "text/event-stream"};
    response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    response.next_piece = [stream] { return stream->next(); };
    return response;
  }
  while (!reader.finished()) {
    const auto piece = reader.next(seconds + 1);
    if (!piece) continue;
    if (piece->end && failed(*piece->end)) throw failure_of(*piece->end);
    (void)writer->events(*piece);
  }
  writer->finish();
  Json body = writer->whole();
  writer->add_attached(body);
  body["usage"] = writer->usage();
  return {.body = body.dump() + "\n"};
}

}  // namespace tephra

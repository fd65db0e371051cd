// SPDX-License-Identifier: Apache-2.0
// The JSON of /v1/chat/completions: reasoning, content and tool calls apart.
#include "tephra/serve/answer_writer.h"

namespace tephra {

namespace {

Json bytes_of(const std::string& text) {
  Json bytes = Json::Array{};
  for (const char c : text) bytes.push_back(int64_t{static_cast<unsigned char>(c)});
  return bytes;
}

}  // namespace

ChatWriter::ChatWriter(const ChatRequest& request, std::string model, const Tokenizer& tokenizer,
                       const ChatParserOptions& parsing, size_t answers)
    : AnswerWriter(request, std::move(model), tokenizer, "chatcmpl-"), top_(request.top_logprobs) {
  for (size_t i = 0; i < answers; ++i) {
    answers_.push_back({.parser = ChatParser(parsing), .reply = {}, .finish = {}});
  }
}

Json ChatWriter::token_json(int32_t id, double logprob) const {
  return Json::Object{
      {"token", token_text(id)}, {"logprob", logprob}, {"bytes", bytes_of(token_bytes(id))}};
}

Json ChatWriter::logprobs_of(const std::vector<EngineToken>& tokens) const {
  Json list = Json::Array{};
  for (const EngineToken& t : tokens) {
    Json one = token_json(t.id, t.logprobs.chosen);
    Json top = Json::Array{};
    for (const auto& [id, logprob] : t.logprobs.top) top.push_back(token_json(id, logprob));
    one["top_logprobs"] = std::move(top);
    list.push_back(std::move(one));
  }
  return list;
}

Json ChatWriter::event(size_t answer, Json delta, Json finish, Json logprobs) const {
  Json choice = Json::Object{{"index", static_cast<int64_t>(answer)},
                             {"delta", std::move(delta)},
                             {"logprobs", std::move(logprobs)},
                             {"finish_reason", std::move(finish)}};
  Json event = envelope(event_object());
  event["choices"] = Json::Array{std::move(choice)};
  return event;
}

std::vector<Json> ChatWriter::opening() {
  std::vector<Json> events;
  for (size_t i = 0; i < answers_.size(); ++i) {
    Json delta = Json::Object{{"role", "assistant"}, {"content", ""}};
    events.push_back(event(i, std::move(delta), {}, {}));
  }
  return events;
}

// Keeps what a piece of text added, and says it in `told`.
void ChatWriter::add_delta(Answer& a, const ChatDelta& delta, Json& told) {
  a.reply.reasoning += delta.reasoning;
  a.reply.content += delta.content;
  if (!delta.reasoning.empty()) {
    const Json* before = told.find("reasoning_content");
    told["reasoning_content"] = (before ? before->string() : std::string()) + delta.reasoning;
  }
  if (!delta.content.empty()) {
    const Json* before = told.find("content");
    told["content"] = (before ? before->string() : std::string()) + delta.content;
  }
  for (const ToolCall& call : delta.tool_calls) {
    const auto index = static_cast<int64_t>(a.tool_calls.array().size());
    Json function = Json::Object{{"name", call.name}, {"arguments", call.arguments.dump()}};
    Json one = Json::Object{
        {"id", new_tool_call_id()}, {"type", "function"}, {"function", std::move(function)}};
    a.tool_calls.push_back(one);
    one["index"] = index;
    told["tool_calls"].push_back(std::move(one));
  }
}

std::vector<Json> ChatWriter::events(const AnswerPiece& piece) {
  count(piece);
  if (piece.report.is_object()) attach_more(piece.report);
  Answer& a = answers_[piece.answer];
  Json told = Json::Object{};
  add_delta(a, a.parser.add(piece.text), told);
  add_delta(a, piece.told, told);
  if (piece.end) {
    add_delta(a, a.parser.finish(), told);
    const bool called = !a.tool_calls.array().empty();
    a.finish = piece.end->reason == EndReason::length ? "length" : called ? "tool_calls" : "stop";
  }
  Json logprobs;
  if (top_ >= 0 && !piece.tokens.empty()) {
    const Json content = logprobs_of(piece.tokens);
    if (streams()) {
      logprobs = Json::Object{{"content", content}, {"refusal", Json()}};
    } else {
      for (const Json& each : content.array()) a.logprobs.push_back(each);
    }
  }
  if (!streams()) return {};
  std::vector<Json> events;
  if (!told.object().empty() || !logprobs.is_null()) {
    events.push_back(event(piece.answer, std::move(told), {}, std::move(logprobs)));
  }
  if (piece.end) {
    Json& last = events.emplace_back(event(piece.answer, Json::Object{}, a.finish, {}));
    if (piece.report.is_object()) {
      for (const auto& [name, value] : piece.report.object()) last[name] = value;
    }
  }
  return events;
}

Json ChatWriter::whole() {
  Json body = envelope("chat.completion");
  Json choices = Json::Array{};
  for (size_t i = 0; i < answers_.size(); ++i) {
    Answer& a = answers_[i];
    const bool called = !a.tool_calls.array().empty();
    Json message = Json::Object{{"role", "assistant"}};
    message["content"] = called && a.reply.content.empty() ? Json() : Json(a.reply.content);
    message["refusal"] = Json();
    if (!a.reply.reasoning.empty()) message["reasoning_content"] = a.reply.reasoning;
    if (called) message["tool_calls"] = a.tool_calls;
    Json logprobs;
    if (top_ >= 0) logprobs = Json::Object{{"content", a.logprobs}, {"refusal", Json()}};
    choices.push_back(Json::Object{{"index", static_cast<int64_t>(i)},
                                   {"message", std::move(message)},
                                   {"logprobs", std::move(logprobs)},
                                   {"finish_reason", a.finish}});
  }
  body["choices"] = std::move(choices);
  return body;
}

}  // namespace tephra

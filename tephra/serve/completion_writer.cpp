// SPDX-License-Identifier: Apache-2.0
// The JSON of /v1/completions.
#include <algorithm>

#include "tephra/serve/answer_writer.h"

namespace tephra {
namespace {

bool continues_character(char c) { return (c & 0xc0) == 0x80; }

// That begin in these bytes.
int64_t characters(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char c) { return !continues_character(c); });
}

Json choice(size_t index, std::string text, Json logprobs, Json finish) {
  return Json::Object{{"index", static_cast<int64_t>(index)},
                      {"text", std::move(text)},
                      {"logprobs", std::move(logprobs)},
                      {"finish_reason", std::move(finish)}};
}

}  // namespace

CompletionWriter::CompletionWriter(const CompletionRequest& request, std::string model,
                                   const Tokenizer& tokenizer, Echo echo, size_t answers)
    : AnswerWriter(request, std::move(model), tokenizer, "cmpl-"),
      n_(request.n),
      top_(request.top_logprobs),
      echo_(std::move(echo)),
      answers_(answers) {}

Json CompletionWriter::Logprobs::json() const {
  return Json::Object{{"tokens", tokens},
                      {"token_logprobs", token_logprobs},
                      {"top_logprobs", top},
                      {"text_offset", offsets}};
}

void CompletionWriter::add_token(Answer& a, Logprobs& to, int32_t id, bool in_text,
                                 const tephra::Logprobs* logprobs) {
  const std::string text = token_text(id);
  to.tokens.push_back(text);
  const std::string bytes = in_text ? token_bytes(id) : std::string();
  // The rest of a character is where that began.
  const bool rest = !bytes.empty() && continues_character(bytes[0]);
  to.offsets.push_back(std::max<int64_t>(0, a.offset - (rest ? 1 : 0)));
  a.offset += characters(bytes);
  to.token_logprobs.push_back(logprobs == nullptr ? Json() : Json(logprobs->chosen));
  Json top;
  if (logprobs != nullptr) {
    top = Json::Object{};
    for (const auto& [other, logprob] : logprobs->top) top[token_text(other)] = logprob;
    // The chosen one is always told.
    if (top.find(text) == nullptr) top[text] = logprobs->chosen;
  }
  to.top.push_back(std::move(top));
}

// The prompt, when it is to be said again: its text, and its first token, which nothing predicts.
void CompletionWriter::open(size_t index, Answer& a, std::string& text, Logprobs& logprobs) {
  if (a.opened || echo_.texts.empty()) return;
  a.opened = true;
  const size_t prompt = index / static_cast<size_t>(n_);
  text = echo_.texts[prompt] + text;
  if (top_ >= 0 && !echo_.ids[prompt].empty()) {
    const int32_t first = echo_.ids[prompt][0];  // may be one that the tokenizer added
    const bool in_text = !is_special(first) || echo_.texts[prompt].starts_with(token_text(first));
    add_token(a, logprobs, first, in_text, nullptr);
  }
}

std::vector<Json> CompletionWriter::events(const AnswerPiece& piece) {
  count(piece);
  Answer& a = answers_[piece.answer];
  std::string text = piece.text;
  Logprobs logprobs;
  open(piece.answer, a, text, logprobs);
  for (const EngineToken& t : piece.prompt_tokens) add_token(a, logprobs, t.id, true, &t.logprobs);
  for (const EngineToken& t : piece.tokens) {
    add_token(a, logprobs, t.id, !is_special(t.id), &t.logprobs);
  }
  if (piece.end) a.finish = piece.end->reason == EndReason::length ? "length" : "stop";
  if (streams()) {
    Json event = envelope(event_object());
    event["choices"] = Json::Array{
        choice(piece.answer, std::move(text), top_ >= 0 ? logprobs.json() : Json(), a.finish)};
    return {std::move(event)};
  }
  a.text += text;
  const auto append = [](Json& to, const Json& from) {
    for (const Json& each : from.array()) to.push_back(each);
  };
  append(a.logprobs.tokens, logprobs.tokens);
  append(a.logprobs.token_logprobs, logprobs.token_logprobs);
  append(a.logprobs.top, logprobs.top);
  append(a.logprobs.offsets, logprobs.offsets);
  return {};
}

Json CompletionWriter::whole() {
  Json body = envelope("text_completion");
  Json choices = Json::Array{};
  for (size_t i = 0; i < answers_.size(); ++i) {
    const Answer& a = answers_[i];
    choices.push_back(choice(i, a.text, top_ >= 0 ? a.logprobs.json() : Json(), a.finish));
  }
  body["choices"] = std::move(choices);
  return body;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/answer_source.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "tephra/base/clock.h"
#include "tephra/text/text_stream.h"

namespace tephra {

// Touched by the engine's thread alone.
struct AnswerSource::Answer {
  Answer(const Tokenizer& tokenizer, const AnswerSpec& spec)
      : stream(tokenizer, spec.stop, {.keep_special = true}) {}

  TextStream stream;
  double last_token = 0;
};

struct AnswerSource::Channel {
  Channel(const Tokenizer& t, ServeMetrics& m, AnswerSpec s)
      : tokenizer(t), metrics(m), spec(std::move(s)), arrived(steady_seconds()) {
    for (size_t i = 0; i < spec.prompts.size() * static_cast<size_t>(spec.n); ++i) {
      answers.emplace_back(tokenizer, spec);
    }
  }

  bool hidden(int32_t id) const {
    if (!tokenizer.is_special(id)) return false;
    const std::string token = tokenizer.token(id);
    return std::find(spec.shown_specials.begin(), spec.shown_specials.end(), token) ==
           spec.shown_specials.end();
  }
  bool stops_as_token(int32_t id) const {
    return tokenizer.is_special(id) &&
           std::find(spec.stop.begin(), spec.stop.end(), tokenizer.token(id)) != spec.stop.end();
  }

  void push(AnswerPiece piece) {
    const std::lock_guard lock(mutex);
    pieces.push_back(std::move(piece));
    ready.notify_one();
  }

  bool take_token(size_t i, const EngineToken& token) {
    Answer& a = answers[i];
    const double now = steady_seconds();
    if (a.last_token == 0) {
      metrics.first_token(now - arrived);
    } else {
      metrics.between_tokens(now - a.last_token);
    }
    a.last_token = now;
    if (stops_as_token(token.id)) return false;
    AnswerPiece piece{.answer = i};
    if (!hidden(token.id)) piece.text = a.stream.add(token.id);
    if (spec.top_logprobs >= 0) piece.tokens.push_back(token);
    const bool go_on = !a.stream.stopped_by();
    if (!piece.text.empty() || !piece.tokens.empty()) push(std::move(piece));
    return go_on;
  }

  void end(size_t i, const EngineEnd& end) {
    metrics.whole_request(steady_seconds() - arrived);
    AnswerPiece piece{.answer = i};
    piece.text = answers[i].stream.finish();
    piece.end = end;
    push(std::move(piece));
  }

  const Tokenizer& tokenizer;
  ServeMetrics& metrics;
  const AnswerSpec spec;
  const double arrived;
  std::vector<Answer> answers;

  std::mutex mutex;
  std::condition_variable ready;
  std::deque<AnswerPiece> pieces;
};

namespace {

EngineRequest engine_request(const AnswerSpec& spec, size_t answer) {
  const auto n = static_cast<size_t>(spec.n);
  EngineRequest r;
  r.prompt = spec.prompts[answer / n];
  r.max_new_tokens = spec.max_new_tokens;
  r.sampling = spec.sampling;
  r.stream = static_cast<uint32_t>(answer % n);
  r.stop_at_eos = !spec.ignore_eos;
  r.top_logprobs = spec.top_logprobs;
  r.prompt_logprobs = spec.prompt_logprobs;
  if (spec.make_filter) r.filter = spec.make_filter();
  return r;
}

}  // namespace

AnswerSource::AnswerSource(Engine& engine, const Tokenizer& tokenizer, ServeMetrics& metrics,
                           AnswerSpec spec)
    : engine_(engine), channel_(std::make_shared<Channel>(tokenizer, metrics, std::move(spec))) {
  std::vector<EngineRequest> requests;
  for (size_t i = 0; i < channel_->answers.size(); ++i) {
    EngineRequest r = engine_request(channel_->spec, i);
    r.on_prompt_token = [c = channel_, i](const EngineToken& token) {
      AnswerPiece piece{.answer = i};
      piece.prompt_tokens.push_back(token);
      c->push(std::move(piece));
    };
    r.on_token = [c = channel_, i](const EngineToken& token) { return c->take_token(i, token); };
    r.on_end = [c = channel_, i](const EngineEnd& end) { c->end(i, end); };
    requests.push_back(std::move(r));
  }
  ids_ = engine.submit(std::move(requests));
}

AnswerSource::~AnswerSource() {
  if (!AnswerSource::finished()) {
    for (const uint64_t id : ids_) engine_.cancel(id);
  }
}

size_t AnswerSource::answers() const { return channel_->answers.size(); }
bool AnswerSource::finished() const { return ended_ == channel_->answers.size(); }

std::optional<AnswerPiece> AnswerSource::next(double seconds) {
  std::unique_lock lock(channel_->mutex);
  if (!channel_->ready.wait_for(lock, std::chrono::duration<double>(seconds),
                                [&] { return !channel_->pieces.empty(); })) {
    return std::nullopt;
  }
  AnswerPiece piece = std::move(channel_->pieces.front());
  channel_->pieces.pop_front();
  if (piece.end) ++ended_;
  return piece;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/rsa_source.h"

#include <algorithm>

#include "tephra/base/clock.h"
#include "tephra/base/text.h"
#include "tephra/eval/rsa_tree.h"
#include "tephra/text/chat_parser.h"

namespace tephra {
namespace {

std::vector<RsaProblem> only(RsaProblem problem) {
  std::vector<RsaProblem> problems;
  problems.push_back(std::move(problem));
  return problems;
}

// The prompt of the first traces counts once, as that of n answers does; those of later rounds are
// each their own.
EngineUsage usage_of(const RsaTree& tree) {
  EngineUsage usage;
  for (size_t r = 0; r < tree.rounds.size(); ++r) {
    const RsaTokens all = tokens_of(std::span(tree.rounds[r]));
    const EngineUsage& first = tree.rounds[r][0].usage;
    usage.new_tokens += all.generated;
    usage.prompt_tokens += r == 0 ? first.prompt_tokens : all.prompt;
    usage.cached_tokens += r == 0 ? first.cached_tokens : all.cached;
  }
  return usage;
}

AnswerPiece reasoning_piece(std::string text) {
  AnswerPiece piece;
  piece.told.reasoning = std::move(text);
  return piece;
}

}  // namespace

RsaSource::RsaSource(Engine& engine, const Tokenizer& tokenizer, ServeMetrics& metrics,
                     RsaProblem problem, const RsaOptions& options, bool thinking, bool streamed)
    : metrics_(metrics),
      options_(options),
      thinking_(thinking),
      streamed_(streamed),
      arrived_(steady_seconds()),
      rsa_(engine, tokenizer, only(std::move(problem)), options) {
  question_.given = [thinking](std::string_view text) {
    const std::string said = ChatParser::parse(text, {.starts_thinking = thinking}).content;
    return trim(said).empty() ? std::string() : voted_answer(said);
  };
}

AnswerPiece RsaSource::opening() {
  opened_ = true;
  return reasoning_piece(to_text(options_) + "\n");
}

AnswerPiece RsaSource::progress(const Rsa::Ended& e) const {
  const std::vector<RsaTrace>& round = rsa_.tree(0).rounds[static_cast<size_t>(e.round)];
  const RsaTrace& trace = round[static_cast<size_t>(e.trace)];
  const std::string answer = question_.given(trace.text);
  return reasoning_piece(format("Round {}, trace {}: {} ({} tokens)\n", e.round, e.trace + 1,
                                answer.empty() ? "no answer" : clipped(answer, 60),
                                trace.usage.new_tokens));
}

Json RsaSource::report(const RsaOutcome& outcome) const {
  const RsaRound& last = outcome.rounds.back();
  Json votes = Json::Array{}, tokens = Json::Array{};
  for (const Vote& v : last.votes) {
    votes.push_back(
        Json::Object{{"answer", v.answer}, {"traces", static_cast<int64_t>(v.voters.size())}});
  }
  for (const RsaRound& round : outcome.rounds) tokens.push_back(to_json(round.tokens));
  // As a request may have them: without later rounds there are no candidates and no tails.
  Json rsa = Json::Object{{"n", options_.traces}};
  if (options_.rounds > 0) rsa["c"] = options_.candidates;
  rsa["rounds"] = options_.rounds;
  rsa["beta"] = options_.trace_tokens;
  if (options_.rounds > 0) rsa["tau"] = options_.tail_tokens;
  rsa["answer"] = last.answers[outcome.chosen()];
  rsa["votes"] = std::move(votes);
  rsa["tokens"] = std::move(tokens);
  return Json::Object{{"rsa", std::move(rsa)}};
}

AnswerPiece RsaSource::answer() {
  told_end_ = true;
  metrics_.whole_request(steady_seconds() - arrived_);
  const RsaOutcome outcome = rsa_outcome(question_, rsa_.take(0));
  const RsaTrace& chosen = outcome.tree.rounds.back()[outcome.chosen()];
  AnswerPiece piece;
  piece.told = ChatParser::parse(chosen.text, {.starts_thinking = thinking_});
  if (opened_ && !piece.told.reasoning.empty()) piece.told.reasoning.insert(0, "\n");
  piece.end = EngineEnd{.reason = chosen.end, .error = {}, .usage = usage_of(outcome.tree)};
  piece.report = report(outcome);
  return piece;
}

AnswerPiece RsaSource::failure(const Error& error) {
  told_end_ = true;
  const bool stopped = error.fault() == Fault::interrupted;
  AnswerPiece piece;
  piece.end = EngineEnd{.reason = stopped ? EndReason::cancelled : EndReason::failed,
                        .error = error.what()};
  return piece;
}

std::optional<AnswerPiece> RsaSource::next(double seconds) {
  if (streamed_ && !opened_) return opening();
  if (rsa_.finished()) return answer();
  try {
    const std::optional<Rsa::Ended> ended = rsa_.next(seconds);
    if (!ended || !streamed_) return std::nullopt;
    return progress(*ended);
  } catch (const Error& error) {
    return failure(error);
  }
}

}  // namespace tephra

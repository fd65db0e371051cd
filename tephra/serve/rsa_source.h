// SPDX-License-Identifier: Apache-2.0
// A chat answered by Markovian RSA. While the traces are made it tells a stream, as reasoning,
// which of them have ended and with what answer; at the end comes the text of the trace that the
// majority of the last round agrees with (docs/decisions/0052-rsa-answers-by-majority.md). Traces
// end in any order, so a reply that is to be the same for the same seed has none of that.
#pragma once

#include "tephra/eval/rsa_questions.h"
#include "tephra/serve/answer_source.h"

namespace tephra {

class RsaSource : public PieceSource {
 public:
  // `thinking`: the prompt ends inside of a think block. Fault::usage when it does not fit.
  RsaSource(Engine& engine, const Tokenizer& tokenizer, ServeMetrics& metrics, RsaProblem problem,
            const RsaOptions& options, bool thinking, bool streamed);

  bool finished() const override { return told_end_; }
  std::optional<AnswerPiece> next(double seconds) override;

 private:
  AnswerPiece opening();
  AnswerPiece progress(const Rsa::Ended& ended) const;
  AnswerPiece answer();
  AnswerPiece failure(const Error& error);
  Json report(const RsaOutcome& outcome) const;

  ServeMetrics& metrics_;
  RsaOptions options_;
  bool thinking_, streamed_, opened_ = false, told_end_ = false;
  double arrived_;
  RsaQuestion question_;
  Rsa rsa_;
};

}  // namespace tephra

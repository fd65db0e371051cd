// SPDX-License-Identifier: Apache-2.0
// The answers to one API request, as they come from the engine: text of whole characters, cut at
// stop strings. The engine's thread fills it, the connection's thread empties it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/infer/engine.h"
#include "tephra/serve/metrics.h"
#include "tephra/text/chat_parser.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct AnswerSpec {
  std::vector<std::vector<int32_t>> prompts;  // n answers each, in order
  int64_t n = 1;
  int64_t max_new_tokens = 16;
  Sampling sampling;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  int64_t top_logprobs = -1;
  bool prompt_logprobs = false;
  // Special tokens are left out of the text, but for these.
  std::vector<std::string> shown_specials;
  std::function<std::unique_ptr<TokenFilter>()> make_filter;  // null: none
};

struct AnswerPiece {
  size_t answer = 0;
  std::string text = {};
  ChatDelta told = {};  // what is known to be reasoning or content, in chats
  std::vector<EngineToken> prompt_tokens = {};  // with their logprobs, when asked for
  std::vector<EngineToken> tokens = {};         // likewise
  std::optional<EngineEnd> end = {};            // with the last piece
  Json report = {};  // fields beside the answers, when they are known only at the end
};

// Where the pieces of all answers to one request come from.
class PieceSource {
 public:
  virtual ~PieceSource() = default;
  virtual bool finished() const = 0;  // the ends of all answers were told
  // The next piece, of any answer; nothing after so many seconds without.
  virtual std::optional<AnswerPiece> next(double seconds) = 0;
};

class AnswerSource : public PieceSource {
 public:
  // Fault::usage when a prompt could never be served; then none of them is.
  AnswerSource(Engine& engine, const Tokenizer& tokenizer, ServeMetrics& metrics, AnswerSpec spec);
  ~AnswerSource() override;  // cancels what has not ended
  AnswerSource(const AnswerSource&) = delete;
  AnswerSource& operator=(const AnswerSource&) = delete;

  size_t answers() const;
  bool finished() const override;
  std::optional<AnswerPiece> next(double seconds) override;

 private:
  struct Answer;
  struct Channel;

  Engine& engine_;
  std::shared_ptr<Channel> channel_;  // the engine's callbacks hold it, too
  std::vector<uint64_t> ids_;
  size_t ended_ = 0;
};

}  // namespace tephra

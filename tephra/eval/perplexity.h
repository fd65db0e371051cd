// SPDX-License-Identifier: Apache-2.0
// How well a model foretells a text. A long text is read in windows of the context; each token is
// scored exactly once, in the first window that it is a target of.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tephra/models/model.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct PerplexityOptions {
  // Tokens that are read together; 0: the model's limit, at most 2048.
  int64_t window = 0;
  // Tokens from the start of a window to that of the next; 0: half a window. From the second window
  // on, a token has at least window - stride + 1 tokens before it. A stride of the window's size is
  // fastest and gives the fewest.
  int64_t stride = 0;
  int64_t pass_tokens = 4096;       // of several windows per forward pass
  std::string model = "the model";  // for messages: its folder
  std::function<void(int64_t tokens)> on_scored;
};

struct Perplexity {
  int64_t tokens = 0;  // that were scored
  int64_t bytes = 0;   // of the text that they spell; 0 when only ids were given
  int64_t windows = 0;
  int64_t window = 0, stride = 0;
  int64_t likeliest = 0;  // tokens that were the model's first choice
  double nats = 0;        // sum of -log p

  double per_token() const;  // exp(nats / tokens)
  double bits_per_token() const;
  double bits_per_byte() const;  // nats / log 2 / bytes
  double share_likeliest() const;
};

// Every id but the first is scored.
Perplexity token_perplexity(Model& model, std::span<const int32_t> ids,
                            const PerplexityOptions& options);

// The text with what the tokenizer puts before it (bos), which is not scored; where it puts
// nothing, the first token is not, and its bytes do not count. Fault::data when the text is not
// UTF-8; `where` names it.
Perplexity text_perplexity(Model& model, const Tokenizer& tokenizer, std::string_view text,
                           const std::string& where, const PerplexityOptions& options);

}  // namespace tephra

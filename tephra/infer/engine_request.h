// SPDX-License-Identifier: Apache-2.0
// What the engine is asked, and what it tells. Callbacks come from the engine's thread, one at a
// time, and must not wait.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tephra/infer/sampler.h"

namespace tephra {

// Narrows the choice of tokens, for output of a given form. Used by one request.
class TokenFilter {
 public:
  virtual ~TokenFilter() = default;

  // One bit per id, set where the token may come next; valid until the next call. Never all clear.
  virtual std::span<const uint64_t> allowed() = 0;
  // The token that was chosen, one of the allowed.
  virtual void accept(int32_t id) = 0;
};

struct EngineToken {
  int32_t id = 0;
  Logprobs logprobs;  // when asked for: of the model's own distribution, before any setting
};

enum class EndReason {
  eos,      // the model ended its text
  length,   // as long as asked
  stopped,  // on_token said so
  cancelled,
  failed,  // with a message
  form,    // no way was found to go on in the form asked for, with a message
};

std::string to_text(EndReason reason);
inline bool has_error(EndReason r) { return r == EndReason::failed || r == EndReason::form; }

struct EngineUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt: found, not computed
  int64_t new_tokens = 0;     // the one that ended the text included
  int64_t preemptions = 0;
  double waiting_seconds = 0;      // before the first work on it
  double first_token_seconds = 0;  // from its arrival; 0 when there was none
};

struct EngineEnd {
  EndReason reason = EndReason::length;
  std::string error;
  EngineUsage usage;
};

struct EngineRequest {
  std::vector<int32_t> prompt;
  int64_t max_new_tokens = 32;
  Sampling sampling;
  uint32_t stream = 0;  // draws differ between streams: several samples of one prompt
  bool stop_at_eos = true;
  std::vector<int32_t> end_tokens;  // beside the model's own
  int64_t top_logprobs = -1;        // with every token; 0: of the chosen alone; -1: none
  bool prompt_logprobs = false;     // of the prompt's tokens, too
  std::unique_ptr<TokenFilter> filter;
  double arrived = 0;  // steady_seconds(); 0: when the engine gets it

  // Prompt tokens from the second on, in order, when their logprobs are asked for.
  std::function<void(const EngineToken&)> on_prompt_token;
  // Each new token, but not the one that ends the text. False ends the request.
  std::function<bool(const EngineToken&)> on_token;
  std::function<void(const EngineEnd&)> on_end;  // once, last
};

struct EngineOptions {
  int64_t kv_memory = int64_t{4} << 30;  // bytes of keys and values, at most
  int64_t sequences = 64;                // side by side, at most
  int64_t context = 0;                   // tokens of a request, at most; 0: the model's limit
  int64_t block_tokens = 0;              // 0: as the model's state wants it
  int64_t prefill_tokens = 0;  // of all prompts in one step, roughly; 0: 512, on a GPU 8192
  bool prefix_cache = true;
  // Answers grow in the kernels for many rows: more in all where many run side by side, while a
  // single one is slower. Either way the bits of an answer do not depend on its neighbours.
  bool throughput = false;
};

struct EngineStats {
  int64_t waiting = 0, running = 0;
  int64_t blocks = 0, blocks_held = 0, blocks_remembered = 0;
  int64_t block_tokens = 0, block_bytes = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, new_tokens = 0;  // in all, as the next ones
  int64_t requests = 0, preemptions = 0, steps = 0;
  int64_t ended[6] = {};  // by EndReason
};

}  // namespace tephra

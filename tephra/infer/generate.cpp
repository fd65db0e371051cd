// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/generate.h"

#include <algorithm>

#include "tephra/base/clock.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/infer/decoder.h"
#include "tephra/infer/scheduled_generate.h"

namespace tephra {
namespace {

// The logits that follow the last of these hidden states.
Tensor last_logits(const Model& model, const Tensor& h_NH) {
  const Tensor logits = model.logits(h_NH.slice_rows(h_NH.rows() - 1, h_NH.rows()));
  return to_device(to_dtype(logits, DType::f32), kCpu);
}

// By the engine's kernels for prompts.
Tensor prefill(Decoder& decoder, const std::vector<int32_t>& prompt, int64_t chunk) {
  const cpu::RowClassScope many(cpu::RowClass::many);
  Tensor h_NH;
  for (size_t at = 0; at < prompt.size();) {
    const size_t end = std::min(prompt.size(), at + static_cast<size_t>(chunk));
    h_NH = decoder.advance(std::vector<int32_t>(prompt.begin() + static_cast<int64_t>(at),
                                                prompt.begin() + static_cast<int64_t>(end)));
    at = end;
  }
  return h_NH;
}

}  // namespace

Generation generate(Model& model, const std::vector<int32_t>& prompt,
                    const GenerateOptions& options) {
  require(!prompt.empty(), "generate: the prompt is empty; give at least one token");
  require(options.max_new_tokens >= 0, "generate: expected 0 or more new tokens, got {}",
          options.max_new_tokens);
  require(options.prefill_chunk >= 1, "generate: expected a prefill chunk of 1 or more, got {}",
          options.prefill_chunk);
  check_sampling(options.sampling);
  const TokenIds& ids = model.tokens();
  // The last token is never fed back.
  const int64_t fed =
      static_cast<int64_t>(prompt.size()) + std::max<int64_t>(0, options.max_new_tokens - 1);
  require(fed <= model.context_limit(),
          "context: a prompt of {} and {} new tokens do not fit the model's limit of {}; shorten "
          "the prompt or ask for fewer new tokens",
          prompt.size(), options.max_new_tokens, model.context_limit());
  if (runs_by_scheduler(model)) return scheduled_generate(model, prompt, options);
  Decoder decoder(model, 1, fed);

  Generation result;
  const double start = steady_seconds();
  Tensor h_NH = prefill(decoder, prompt, options.prefill_chunk);
  result.prefill_seconds = steady_seconds() - start;
  while (static_cast<int64_t>(result.tokens.size()) < options.max_new_tokens) {
    const Tensor logits = last_logits(model, h_NH);
    const std::span<const float> row(logits.data<float>(), static_cast<size_t>(logits.cols()));
    const uint64_t position = prompt.size() + result.tokens.size();
    const int32_t next = sample(row, ids.usable, options.sampling, 0, position);
    result.tokens.push_back(next);
    result.stopped_at_eos =
        options.stop_at_eos && std::find(ids.eos.begin(), ids.eos.end(), next) != ids.eos.end();
    const bool go_on = !options.on_token || options.on_token(next);
    if (result.stopped_at_eos || !go_on) break;
    if (static_cast<int64_t>(result.tokens.size()) == options.max_new_tokens) break;
    h_NH = decoder.advance({next});
  }
  result.decode_seconds = steady_seconds() - start - result.prefill_seconds;
  return result;
}

}  // namespace tephra

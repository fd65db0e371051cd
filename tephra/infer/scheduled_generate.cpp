// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/scheduled_generate.h"

#include <algorithm>

#include "tephra/base/clock.h"
#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
#include "tephra/infer/scheduler.h"

namespace tephra {
namespace {

void run_to_the_end(Scheduler& scheduler) {
  while (scheduler.step()) stop_if_interrupted();
}

// Of tokens that are fed: the last one never is.
int64_t fed_by(int64_t prompt, int64_t new_tokens) {
  return prompt + std::max<int64_t>(0, new_tokens - 1);
}

void fail_with(const EngineEnd& end) {
  if (has_error(end.reason)) throw Error(Fault::data, end.error);
}

FinishReason finish_reason(EndReason reason) {
  if (reason == EndReason::eos) return FinishReason::eos;
  return reason == EndReason::stopped ? FinishReason::stopped : FinishReason::length;
}

}  // namespace

bool runs_by_scheduler(Model& model) {
  return model.parameters().device().kind == Device::Kind::gpu;
}

Generation scheduled_generate(Model& model, const std::vector<int32_t>& prompt,
                              const GenerateOptions& options) {
  Generation result;
  const double start = steady_seconds();
  const int64_t fed = fed_by(std::ssize(prompt), options.max_new_tokens);
  const int64_t block = model.state_spec().snapshot_interval;
  Scheduler scheduler(model,
                      {.kv_memory = PagedState::block_bytes(model, block) * ceil_div(fed, block),
                       .sequences = 1,
                       .context = fed,
                       .block_tokens = block,
                       .prefix_cache = false});
  const std::vector<int64_t>& eos = model.tokens().eos;
  EngineRequest request;
  request.prompt = prompt;
  request.max_new_tokens = options.max_new_tokens;
  request.sampling = options.sampling;
  request.stop_at_eos = false;  // the token that ends the text is part of the result
  request.on_token = [&](const EngineToken& token) {
    if (result.tokens.empty()) result.prefill_seconds = steady_seconds() - start;
    result.tokens.push_back(token.id);
    result.stopped_at_eos =
        options.stop_at_eos && std::find(eos.begin(), eos.end(), token.id) != eos.end();
    const bool go_on = !options.on_token || options.on_token(token.id);
    return go_on && !result.stopped_at_eos;
  };
  EngineEnd end;
  request.on_end = [&](const EngineEnd& e) { end = e; };
  scheduler.add(std::move(request));
  run_to_the_end(scheduler);
  fail_with(end);
  result.decode_seconds = steady_seconds() - start - result.prefill_seconds;
  return result;
}

std::vector<BatchGeneration> scheduled_batch(Model& model,
                                             std::span<const GenerateRequest> requests,
                                             const BatchOptions& options) {
  std::vector<BatchGeneration> results(requests.size());
  int64_t longest = 1;
  for (const GenerateRequest& r : requests) {
    longest = std::max(longest, fed_by(std::ssize(r.prompt), r.max_new_tokens));
  }
  const int64_t block = model.state_spec().snapshot_interval;
  const int64_t least = PagedState::block_bytes(model, block) * ceil_div(longest, block);
  Scheduler scheduler(model, {.kv_memory = std::max(options.cache_bytes, least),
                              .sequences = options.sequences,
                              .context = longest,
                              .block_tokens = block,
                              .prefill_tokens = options.pass_tokens});
  for (size_t i = 0; i < requests.size(); ++i) {
    EngineRequest request;
    request.prompt = requests[i].prompt;
    request.max_new_tokens = requests[i].max_new_tokens;
    request.sampling = options.sampling;
    request.stream = requests[i].stream;
    request.end_tokens = options.end_tokens;
    request.on_token = [&, i](const EngineToken& token) {
      results[i].tokens.push_back(token.id);
      return !options.on_token || options.on_token(i, token.id);
    };
    request.on_end = [&, i](const EngineEnd& end) {
      fail_with(end);
      results[i].finish = finish_reason(end.reason);
      if (options.on_finish) options.on_finish(i, results[i]);
    };
    scheduler.add(std::move(request));
  }
  run_to_the_end(scheduler);
  return results;
}

}  // namespace tephra

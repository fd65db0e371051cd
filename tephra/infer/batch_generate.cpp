// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/batch_generate.h"

#include <algorithm>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/infer/decoder.h"
#include "tephra/infer/scheduled_generate.h"

namespace tephra {
namespace {

constexpr int64_t kLogitRows = 64;  // rows of logits that exist at a time

// Tokens that are fed to the model: the last one never is.
int64_t fed_tokens(const GenerateRequest& r) {
  return static_cast<int64_t>(r.prompt.size()) + std::max<int64_t>(0, r.max_new_tokens - 1);
}

void check_requests(const Model& model, std::span<const GenerateRequest> requests,
                    const BatchOptions& options) {
  check_sampling(options.sampling);
  require(options.sequences >= 1 && options.prefill_chunk >= 1 && options.pass_tokens >= 1,
          "batch generate: expected at least one sequence, one token per chunk and one per pass, "
          "got {}, {} and {}",
          options.sequences, options.prefill_chunk, options.pass_tokens);
  for (size_t i = 0; i < requests.size(); ++i) {
    const GenerateRequest& r = requests[i];
    require(!r.prompt.empty(), "batch generate: prompt {} is empty; give at least one token", i);
    require(r.max_new_tokens >= 0, "batch generate: request {} asks for {} new tokens", i,
            r.max_new_tokens);
    require(fed_tokens(r) <= model.context_limit(),
            "context: prompt {} of {} and {} new tokens do not fit the model's limit of {}; "
            "shorten the prompt or ask for fewer new tokens",
            i, r.prompt.size(), r.max_new_tokens, model.context_limit());
  }
}

int64_t cache_bytes_per_token(Model& model) {
  int64_t bytes = 0;
  for (const LayerStateSpec& layer : model.state_spec().layers) {
    const int64_t rows = layer.values_in_keys ? 1 : 2;
    bytes += rows * layer.kv_width * size_of(model.parameters().dtype());
  }
  return bytes;
}

int64_t capacity_of(std::span<const GenerateRequest> requests) {
  int64_t capacity = 1;
  for (const GenerateRequest& r : requests) capacity = std::max(capacity, fed_tokens(r));
  return capacity;
}

int64_t places_of(Model& model, std::span<const GenerateRequest> requests,
                  const BatchOptions& options) {
  const int64_t each = std::max<int64_t>(1, capacity_of(requests) * cache_bytes_per_token(model));
  const int64_t wanted = std::min(options.sequences, static_cast<int64_t>(requests.size()));
  return std::max<int64_t>(1, std::min(wanted, options.cache_bytes / each));
}

// One run over the requests. The decoder has a place for each sequence.
class Batch {
 public:
  Batch(Model& model, std::span<const GenerateRequest> requests, const BatchOptions& options)
      : model_(model),
        requests_(requests),
        options_(options),
        places_(static_cast<size_t>(places_of(model, requests, options))),
        decoder_(model, std::ssize(places_), capacity_of(requests)),
        results_(requests.size()),
        ends_(model.tokens().eos.begin(), model.tokens().eos.end()) {
    ends_.insert(ends_.end(), options.end_tokens.begin(), options.end_tokens.end());
  }

  std::vector<BatchGeneration> run() {
    const cpu::RowClassScope many(cpu::RowClass::many);
    while (admit()) pass();
    return std::move(results_);
  }

 private:
  struct Place {
    bool busy = false;
    size_t request = 0;
    size_t fed = 0;     // tokens of the prompt that the model has seen
    int32_t next = -1;  // then the newest token, which it has not
  };

  const GenerateRequest& request(const Place& p) const { return requests_[p.request]; }

  // Gives free places to waiting requests; false when nothing is left to do.
  bool admit() {
    std::vector<int64_t> emptied;
    bool any = false;
    for (size_t i = 0; i < places_.size(); ++i) {
      Place& p = places_[i];
      while (!p.busy && waiting_ < requests_.size()) take_next(p);
      if (p.busy && p.fed == 0 && decoder_.length(static_cast<int64_t>(i)) > 0) {
        emptied.push_back(static_cast<int64_t>(i));
      }
      any = any || p.busy;
    }
    decoder_.forget(emptied);
    return any;
  }

  void take_next(Place& p) {
    p = {.busy = requests_[waiting_].max_new_tokens > 0, .request = waiting_};
    ++waiting_;
    if (!p.busy) finish(p, FinishReason::length);
  }

  void pass() {
    std::vector<std::vector<int32_t>> tokens(places_.size());
    std::vector<size_t> heard;  // places that choose a token after this pass
    std::vector<int64_t> rows;  // where each of them has its last hidden state
    plan(tokens, heard, rows);
    const Tensor h_NH = decoder_.advance(tokens);
    for (size_t i = 0; i < heard.size(); i += kLogitRows) {
      const size_t end = std::min(heard.size(), i + kLogitRows);
      choose(h_NH, std::span(heard).subspan(i, end - i), std::span(rows).subspan(i, end - i));
    }
  }

  // What each place feeds: its newest token, or the next chunk of its prompt. Where chunks are cut
  // does not depend on the neighbours: one that no longer fits the pass waits for the next.
  void plan(std::vector<std::vector<int32_t>>& tokens, std::vector<size_t>& heard,
            std::vector<int64_t>& rows) {
    int64_t planned = 0;
    for (const Place& p : places_) planned += p.busy && p.next >= 0 ? 1 : 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      Place& p = places_[i];
      if (!p.busy || p.next >= 0) continue;
      const std::vector<int32_t>& prompt = request(p).prompt;
      const size_t end =
          std::min(prompt.size(), p.fed + static_cast<size_t>(options_.prefill_chunk));
      const int64_t length = static_cast<int64_t>(end - p.fed);
      if (planned > 0 && planned + length > options_.pass_tokens) continue;
      planned += length;
      tokens[i].assign(prompt.begin() + static_cast<int64_t>(p.fed),
                       prompt.begin() + static_cast<int64_t>(end));
      p.fed = end;
    }
    int64_t total = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      const Place& p = places_[i];
      if (p.busy && p.next >= 0) tokens[i] = {p.next};
      total += static_cast<int64_t>(tokens[i].size());
      if (!tokens[i].empty() && p.fed == request(p).prompt.size()) {
        heard.push_back(i);
        rows.push_back(total - 1);
      }
    }
  }

  void choose(const Tensor& h_NH, std::span<const size_t> heard, std::span<const int64_t> rows) {
    const auto count = static_cast<int64_t>(heard.size());
    const Tensor last({count, h_NH.cols()}, h_NH.dtype(), h_NH.device());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = rows[static_cast<size_t>(i)];
      copy_into(last.slice_rows(i, i + 1), h_NH.slice_rows(row, row + 1));
    }
    const Tensor logits = to_device(to_dtype(model_.logits(last), DType::f32), kCpu);
    std::vector<int32_t> chosen(heard.size());
    parallel_for(count, 1, [&](int64_t i, int64_t) {
      const Place& p = places_[heard[static_cast<size_t>(i)]];
      const std::span<const float> row(logits.row<float>(i), static_cast<size_t>(logits.cols()));
      const uint64_t position = request(p).prompt.size() + results_[p.request].tokens.size();
      chosen[static_cast<size_t>(i)] =
          sample(row, model_.tokens().usable, options_.sampling, request(p).stream, position);
    });
    for (size_t i = 0; i < heard.size(); ++i) take_token(places_[heard[i]], chosen[i]);
  }

  void take_token(Place& p, int32_t token) {
    std::vector<int32_t>& tokens = results_[p.request].tokens;
    if (std::find(ends_.begin(), ends_.end(), token) != ends_.end()) {
      return finish(p, FinishReason::eos);
    }
    tokens.push_back(token);
    p.next = token;
    if (options_.on_token && !options_.on_token(p.request, token)) {
      return finish(p, FinishReason::stopped);
    }
    if (static_cast<int64_t>(tokens.size()) >= request(p).max_new_tokens) {
      finish(p, FinishReason::length);
    }
  }

  void finish(Place& p, FinishReason reason) {
    results_[p.request].finish = reason;
    p.busy = false;
    if (options_.on_finish) options_.on_finish(p.request, results_[p.request]);
  }

  Model& model_;
  std::span<const GenerateRequest> requests_;
  const BatchOptions& options_;
  std::vector<Place> places_;
  Decoder decoder_;
  std::vector<BatchGeneration> results_;
  std::vector<int64_t> ends_;
  size_t waiting_ = 0;  // the first request without a place
};

}  // namespace

std::string to_text(FinishReason reason) {
  switch (reason) {
    case FinishReason::eos:
      return "eos";
    case FinishReason::length:
      return "length";
    case FinishReason::stopped:
      return "stop";
  }
  return {};
}

std::vector<BatchGeneration> batch_generate(Model& model, std::span<const GenerateRequest> requests,
                                            const BatchOptions& options) {
  check_requests(model, requests, options);
  if (requests.empty()) return {};
  if (runs_by_scheduler(model)) return scheduled_batch(model, requests, options);
  return Batch(model, requests, options).run();
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/metrics.h"

#include <algorithm>

#include "tephra/base/format.h"

namespace tephra {
namespace {

constexpr double kBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                              0.5,   1,      2.5,   5,    10,    30,   60,  300};

std::string one(const char* name, const char* type, const char* help, double value) {
  return format("# HELP tephra_{} {}\n# TYPE tephra_{} {}\ntephra_{} {}\n", name, help, name, type,
                name, value);
}

}  // namespace

DurationHistogram::DurationHistogram() : counts_(std::size(kBounds) + 1, 0) {}

void DurationHistogram::add(double seconds) {
  const auto bucket = std::lower_bound(std::begin(kBounds), std::end(kBounds), seconds);
  ++counts_[static_cast<size_t>(bucket - std::begin(kBounds))];
  ++total_;
  sum_ += seconds;
}

std::string DurationHistogram::text(const std::string& name, const std::string& help) const {
  std::string out = format("# HELP {} {}\n# TYPE {} histogram\n", name, help, name);
  int64_t below = 0;
  for (size_t i = 0; i < std::size(kBounds); ++i) {
    below += counts_[i];
    out += format("{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], below);
  }
  out += format("{}_bucket{{le=\"+Inf\"}} {}\n{}_sum {}\n{}_count {}\n", name, total_, name, sum_,
                name, total_);
  return out;
}

void ServeMetrics::count_request(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}

void ServeMetrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds);
}

void ServeMetrics::between_tokens(double seconds) {
  const std::lock_guard lock(mutex_);
  between_tokens_.add(seconds);
}

void ServeMetrics::whole_request(double seconds) {
  const std::lock_guard lock(mutex_);
  whole_request_.add(seconds);
}

std::string ServeMetrics::text(const EngineStats& e) const {
  const auto n = [](int64_t value) { return static_cast<double>(value); };
  std::string out;
  out += one("requests_running", "gauge", "Answers being made.", n(e.running));
  out += one("requests_waiting", "gauge", "Answers waiting for their turn.", n(e.waiting));
  out += one("prompt_tokens_total", "counter", "Tokens of prompts.", n(e.prompt_tokens));
  out += one("cached_prompt_tokens_total", "counter",
             "Tokens of prompts that were not computed: remembered, or read for another request.",
             n(e.cached_tokens));
  out += one("generated_tokens_total", "counter", "Tokens generated.", n(e.new_tokens));
  out += one("preemptions_total", "counter", "Answers put aside for lack of KV memory.",
             n(e.preemptions));
  out += one("engine_steps_total", "counter", "Steps of the engine.", n(e.steps));
  out += one("kv_blocks", "gauge", "Blocks of the KV cache.", n(e.blocks));
  out += one("kv_blocks_held", "gauge", "Blocks that answers hold.", n(e.blocks_held));
  out +=
      one("kv_blocks_remembered", "gauge", "Blocks in the prefix cache.", n(e.blocks_remembered));
  out += "# HELP tephra_answers_total Answers that ended, by reason.\n";
  out += "# TYPE tephra_answers_total counter\n";
  for (int i = 0; i < static_cast<int>(std::size(e.ended)); ++i) {
    out +=
        format("tephra_answers_total{{reason=\"{}\"}} {}\n", static_cast<EndReason>(i), e.ended[i]);
  }
  const std::lock_guard lock(mutex_);
  out += "# HELP tephra_http_requests_total HTTP requests, by path and status.\n";
  out += "# TYPE tephra_http_requests_total counter\n";
  for (const auto& [key, count] : requests_) {
    out += format("tephra_http_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first,
                  key.second, count);
  }
  out += first_token_.text("tephra_time_to_first_token_seconds",
                           "From a request's arrival to its first token.");
  out += between_tokens_.text("tephra_time_between_tokens_seconds",
                              "From one token of an answer to the next.");
  out += whole_request_.text("tephra_request_seconds", "From a request's arrival to its end.");
  return out;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// What the server counts, as Prometheus reads it. Any thread may count.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tephra/infer/engine_request.h"

namespace tephra {

// Durations in buckets whose bounds grow, from a millisecond to some minutes.
class DurationHistogram {
 public:
  DurationHistogram();
  void add(double seconds);
  std::string text(const std::string& name, const std::string& help) const;

 private:
  std::vector<int64_t> counts_;  // by bucket, then beyond the last
  int64_t total_ = 0;
  double sum_ = 0;
};

class ServeMetrics {
 public:
  void count_request(const std::string& path, int status);
  void first_token(double seconds);
  void between_tokens(double seconds);
  void whole_request(double seconds);

  std::string text(const EngineStats& engine) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  DurationHistogram first_token_, between_tokens_, whole_request_;
};

}  // namespace tephra

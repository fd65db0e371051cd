// SPDX-License-Identifier: Apache-2.0
// How far a long job is: a live bar on a terminal, a line every ten seconds elsewhere, nothing when
// quiet.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace tephra {

class Progress {
 public:
  // `total` 0: not known. The unit "B" is shown as KiB, MiB, ...; others ("tokens") as counts.
  Progress(std::string what, int64_t total, std::string unit);
  ~Progress();  // without finish(), the bar disappears and nothing is claimed
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(int64_t count = 1);  // from any thread
  void finish();                    // "what: 3,000 docs in 6.1 s, 491 docs/s"

 private:
  void show(double now);

  const std::string what_;
  const int64_t total_;
  const std::string unit_;
  const bool live_;
  const bool silent_;
  const double start_;
  std::atomic<int64_t> done_{0};
  std::atomic<double> next_;
  std::mutex mutex_;
  bool finished_ = false;
};

// The texts, for tests and for others who draw.
struct ProgressState {
  std::string what;
  std::string unit;
  int64_t done = 0;
  int64_t total = 0;
  double seconds = 0;
};
std::string progress_bar(const ProgressState& state, int width);
std::string progress_line(const ProgressState& state);
std::string progress_summary(const ProgressState& state);

std::string human_seconds(double seconds);  // "6.1 s", "3:05", "2:00:00"

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// How far a long job is, on stderr: a live bar on a terminal, a line every ten seconds elsewhere,
// nothing when the log is quiet.
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
  // Ends the bar with a line of what was done; work that ended before the first one says nothing.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(int64_t amount = 1);  // from any thread

 private:
  void show(double now);

  const std::string what_;
  const int64_t total_;
  const std::string unit_;
  const bool live_;
  const double start_;
  std::atomic<int64_t> done_{0};
  std::atomic<double> next_;
  std::mutex mutex_;
  bool shown_ = false;
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

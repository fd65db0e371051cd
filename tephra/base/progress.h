// SPDX-License-Identifier: Apache-2.0
// How far a long piece of work has come, on stderr: a line that redraws itself on a terminal, a
// plain line now and then otherwise, nothing when the log is quiet.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tephra {

class Progress {
 public:
  // `total` in `unit`s; `unit` "B" prints as MB, GB.
  Progress(std::string what, int64_t total, std::string unit);
  ~Progress();  // ends the live line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(int64_t amount);

 private:
  void print(bool last);

  using Clock = std::chrono::steady_clock;
  std::string what_;
  int64_t total_;
  std::string unit_;
  int64_t done_ = 0;
  bool live_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

// 1536 -> "1.54 kB": decimal units, three digits.
std::string bytes_text(int64_t bytes);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// A thread that makes the next steps' data while the current step computes. What is made does not
// depend on it: `make` is a pure function of the step.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "tephra/base/clock.h"

namespace tephra {

template <class T>
class Prefetch {
 public:
  // Keeps up to `depth` steps ready.
  Prefetch(std::function<T(int64_t step)> make, int64_t depth)
      : make_(std::move(make)), depth_(static_cast<size_t>(depth)) {}

  ~Prefetch() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (worker_.joinable()) worker_.join();
  }
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // The data of a step; an exception of its making is thrown here. Steps are expected to rise by
  // one: another step starts anew from there.
  T take(int64_t step) {
    std::unique_lock lock(mutex_);
    if (step != next_taken_) restart(step);
    if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
    if (ready_.empty()) {
      const double begin = steady_seconds();
      changed_.wait(lock, [&] { return !ready_.empty(); });
      waited_seconds_ += steady_seconds() - begin;
    }
    Made made = std::move(ready_.front());
    ready_.pop_front();
    ++next_taken_;
    if (made.error) failed_ = false;  // whoever goes on after it may
    lock.unlock();
    changed_.notify_all();
    if (made.error) std::rethrow_exception(made.error);
    return std::move(made.value);
  }

  // How long take() had to wait so far.
  double waited_seconds() const {
    const std::lock_guard lock(mutex_);
    return waited_seconds_;
  }

 private:
  struct Made {
    T value{};
    std::exception_ptr error;
  };

  void restart(int64_t step) {
    ready_.clear();
    next_taken_ = next_made_ = step;
    ++generation_;
    failed_ = false;
    changed_.notify_all();  // the worker may be waiting for room
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || (ready_.size() < depth_ && !failed_); });
      if (stopping_) return;
      const int64_t step = next_made_++, generation = generation_;
      lock.unlock();
      Made made;
      try {
        made.value = make_(step);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      if (generation != generation_) continue;  // asked for another step meanwhile
      failed_ = made.error != nullptr;
      ready_.push_back(std::move(made));
      changed_.notify_all();
    }
  }

  const std::function<T(int64_t)> make_;
  const size_t depth_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Made> ready_;  // of steps next_taken_, next_taken_ + 1, ...
  int64_t next_taken_ = 0, next_made_ = 0, generation_ = 0;
  bool failed_ = false, stopping_ = false;
  double waited_seconds_ = 0;
  std::thread worker_;
};

}  // namespace tephra

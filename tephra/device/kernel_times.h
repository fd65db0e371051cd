// SPDX-License-Identifier: Apache-2.0
// Where the time goes: while a KernelTimes is alive on a thread, every kernel that the thread
// launches adds its seconds under its name.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tephra/base/clock.h"

namespace tephra {

class KernelTimes {
 public:
  struct Entry {
    double seconds = 0;
    int64_t launches = 0;
  };

  KernelTimes();
  ~KernelTimes();
  KernelTimes(const KernelTimes&) = delete;
  KernelTimes& operator=(const KernelTimes&) = delete;

  void add(std::string_view name, double seconds);
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  double seconds() const;  // of all of them

  static KernelTimes* current();  // null when nobody asked

 private:
  std::map<std::string, Entry, std::less<>> entries_;
  KernelTimes* outer_;
};

// Of one launch. Costs a look at a thread's variable when nobody asked.
class KernelTimer {
 public:
  explicit KernelTimer(std::string_view name)
      : times_(KernelTimes::current()), name_(name), begin_(times_ ? steady_seconds() : 0) {}
  ~KernelTimer() {
    if (times_) times_->add(name_, steady_seconds() - begin_);
  }
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

 private:
  KernelTimes* times_;
  std::string_view name_;
  double begin_;
};

}  // namespace tephra

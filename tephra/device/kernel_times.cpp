// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/kernel_times.h"

namespace tephra {
namespace {

thread_local KernelTimes* current_times = nullptr;

}  // namespace

KernelTimes::KernelTimes() : outer_(current_times) { current_times = this; }
KernelTimes::~KernelTimes() { current_times = outer_; }

KernelTimes* KernelTimes::current() { return current_times; }

void KernelTimes::add(std::string_view name, double seconds) {
  auto found = entries_.find(name);
  if (found == entries_.end()) found = entries_.emplace(name, Entry{}).first;
  found->second.seconds += seconds;
  ++found->second.launches;
}

double KernelTimes::seconds() const {
  double sum = 0;
  for (const auto& [name, entry] : entries_) sum += entry.seconds;
  return sum;
}

}  // namespace tephra

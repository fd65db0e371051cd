// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/rotary_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>

#include "tephra/base/parallel.h"

namespace tephra::cpu {
namespace {

constexpr int64_t kFewestPositions = 256;
constexpr int64_t kMostPositions = 1 << 18;  // 64 MiB of floats for a rotary_dim of 64

}  // namespace

template <class Acc>
RotaryTable<Acc>::RotaryTable(int64_t positions, int64_t rotary_dim, double theta)
    : positions_(positions) {
  for (int64_t i = 0; i < rotary_dim / 2; ++i) {
    const Acc exponent = static_cast<Acc>(2 * i) / static_cast<Acc>(rotary_dim);
    frequencies_.push_back(Acc(1) / static_cast<Acc>(std::pow(theta, double(exponent))));
  }
  const int64_t bytes = positions * rotary_dim * static_cast<int64_t>(sizeof(Acc));
  rows_ = Storage::allocate(kCpu, bytes, Purpose::workspace);
  parallel_for(positions, kFewestPositions, [&](int64_t begin, int64_t end) {
    auto* rows = static_cast<Acc*>(rows_->data());
    for (int64_t p = begin; p < end; ++p) compute(p, rows + p * rotary_dim);
  });
}

template <class Acc>
void RotaryTable<Acc>::compute(int64_t position, Acc* out) const {
  const size_t half = frequencies_.size();
  for (size_t i = 0; i < half; ++i) {
    const Acc angle = static_cast<Acc>(position) * frequencies_[i];
    out[i] = static_cast<Acc>(std::cos(double(angle)));
    out[half + i] = static_cast<Acc>(std::sin(double(angle)));
  }
}

template <class Acc>
const Acc* RotaryTable<Acc>::row(int64_t position, Acc* scratch) const {
  if (position < positions_) {
    return static_cast<const Acc*>(rows_->data()) + position * 2 * std::ssize(frequencies_);
  }
  compute(position, scratch);
  return scratch;
}

template <class Acc>
std::shared_ptr<const RotaryTable<Acc>> RotaryTable<Acc>::covering(int64_t positions,
                                                                   int64_t rotary_dim,
                                                                   double theta) {
  static std::mutex mutex;
  static std::map<std::pair<int64_t, double>, std::shared_ptr<const RotaryTable>> tables;

  const auto rounded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(positions)));
  const int64_t wanted = std::clamp(rounded, kFewestPositions, kMostPositions);
  const std::pair key(rotary_dim, theta);
  {
    const std::lock_guard lock(mutex);
    const auto found = tables.find(key);
    if (found != tables.end() && found->second->positions_ >= wanted) return found->second;
  }
  // Outside the lock, since it runs on all threads. Two callers may both do it; the rows are equal.
  const std::shared_ptr<const RotaryTable> table(new RotaryTable(wanted, rotary_dim, theta));
  const std::lock_guard lock(mutex);
  return tables[key] = table;
}

template class RotaryTable<float>;
template class RotaryTable<double>;

}  // namespace tephra::cpu

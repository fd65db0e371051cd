// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/rng.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
#include "tephra/device/launch.h"

namespace tephra {

namespace {

template <class Value>
void fill_with(const Tensor& x, Value value) {
  visit_float(x.dtype(), [&]<class T>() {
    const int64_t cols = x.cols();
    parallel_for(x.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
      stop_if_interrupted();  // a large model takes minutes
      for (int64_t i = begin; i < end;) {
        const int64_t first = i / cols * cols;  // of the row that i lies in
        T* row = x.row<T>(i / cols);
        for (; i < std::min(end, first + cols); ++i) row[i - first] = T(value(i));
      }
    });
  });
}

}  // namespace

double uniform(const RngKey& key, uint64_t index) {
  const auto r = philox(key, index);
  return unit_interval(r[0], r[1]);
}

double normal(const RngKey& key, uint64_t index) {
  const auto r = philox(key, index);
  const double u = 1.0 - unit_interval(r[0], r[1]);  // in (0, 1]: its logarithm is finite
  const double v = unit_interval(r[2], r[3]);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

void kernel::FillRandom::on_cpu() const {
  fill_with(x, [&](int64_t i) {
    const auto index = static_cast<uint64_t>(i);
    return shift + scale * (is_normal ? normal(key, index) : uniform(key, index));
  });
}

void fill_normal(const Tensor& x, const RngKey& key, double mean, double std) {
  if (x.numel() > 0) {
    launch(x.device(), "fill_normal", kernel::FillRandom{x, key, true, mean, std});
  }
}

void fill_uniform(const Tensor& x, const RngKey& key, double low, double high) {
  if (x.numel() > 0) {
    launch(x.device(), "fill_uniform", kernel::FillRandom{x, key, false, low, high - low});
  }
}

uint32_t stream_of(std::string_view name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

}  // namespace tephra

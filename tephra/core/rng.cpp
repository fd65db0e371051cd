// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/rng.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"

namespace tephra {

std::array<uint32_t, 4> philox(const RngKey& key, uint64_t index) {
  constexpr uint32_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                               key.stream, key.step};
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiply0} * c[0];
    const uint64_t p1 = uint64_t{kMultiply1} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

namespace {

double to_unit(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

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
  return to_unit(r[0], r[1]);
}

double normal(const RngKey& key, uint64_t index) {
  const auto r = philox(key, index);
  const double u = 1.0 - to_unit(r[0], r[1]);  // in (0, 1]: its logarithm is finite
  const double v = to_unit(r[2], r[3]);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

void fill_normal(const Tensor& x, const RngKey& key, double mean, double std) {
  fill_with(x, [&](int64_t i) { return mean + std * normal(key, static_cast<uint64_t>(i)); });
}

void fill_uniform(const Tensor& x, const RngKey& key, double low, double high) {
  fill_with(x,
            [&](int64_t i) { return low + (high - low) * uniform(key, static_cast<uint64_t>(i)); });
}

uint32_t stream_of(std::string_view name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

}  // namespace tephra

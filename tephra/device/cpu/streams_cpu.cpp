// SPDX-License-Identifier: Apache-2.0
// Streams over memory: every element of some arrays read, every element of others written.
#include <array>
#include <atomic>
#include <utility>

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/device/ceilings.h"
#include "tephra/device/memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/device/cpu/streams_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: the vocabulary of this file

constexpr int kUnroll = 4;

// Elements [begin, end) of streams that lie `stride` floats apart, the read ones first. Returns a
// value that depends on all that was read.
template <int kReads, int kWrites>
float stream(float* base, int64_t stride, int64_t begin, int64_t end) {
  const int64_t width = lanes<float>();
  std::array<Vec<float>, kUnroll> sums;
  for (auto& sum : sums) sum = set<float>(0);
  for (int64_t i = begin; i + kUnroll * width <= end; i += kUnroll * width) {
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t at = i + u * width;
      auto value = kWrites > 0 ? set<float>(1) : sums[u];
      for (int r = 0; r < kReads; ++r) value = hn::Add(value, load(base + r * stride + at));
      for (int w = 0; w < kWrites; ++w) store(base + (kReads + w) * stride + at, value);
      if (kWrites == 0) sums[u] = value;
    }
  }
  return sum_of_lanes<float>(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

template <int kWrites>
float stream_of(int reads, float* base, int64_t stride, int64_t begin, int64_t end) {
  switch (reads) {
    case 0:
      return stream<0, kWrites>(base, stride, begin, end);
    case 1:
      return stream<1, kWrites>(base, stride, begin, end);
    case 2:
      return stream<2, kWrites>(base, stride, begin, end);
    case 3:
      return stream<3, kWrites>(base, stride, begin, end);
    default:
      return stream<4, kWrites>(base, stride, begin, end);
  }
}

float run_stream(StreamMix mix, float* base, int64_t stride, int64_t begin, int64_t end) {
  switch (mix.writes) {
    case 0:
      return stream_of<0>(mix.reads, base, stride, begin, end);
    case 1:
      return stream_of<1>(mix.reads, base, stride, begin, end);
    case 2:
      return stream_of<2>(mix.reads, base, stride, begin, end);
    default:
      return stream_of<3>(mix.reads, base, stride, begin, end);
  }
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tephra::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra {
namespace {

HWY_EXPORT(run_stream);
HWY_EXPORT(target_name);

constexpr int64_t kGrain = 1 << 14;
// Arrays that start at the same offset of a page disturb each other; these do not.
constexpr int64_t kStagger = 272;

std::atomic<float> sink;  // keeps the compiler from dropping what is read only

}  // namespace

StreamPeer::StreamPeer(StreamMix mix, int64_t bytes) : mix_(mix) {
  TEPHRA_ASSERT(mix.reads >= 0 && mix.reads <= kMaxStreamReads, "nearest_mix keeps to it");
  TEPHRA_ASSERT(mix.writes >= 0 && mix.writes <= kMaxStreamWrites, "nearest_mix keeps to it");
  const int streams = mix.reads + mix.writes;
  TEPHRA_ASSERT(streams > 0, "something is read or written");
  elements_ = std::max<int64_t>(1, bytes / (streams * 4) / kGrain) * kGrain;
  block_ = Storage::allocate(kCpu, (elements_ + kStagger) * streams * 4, Purpose::workspace);
  auto* data = static_cast<float*>(block_->data());
  parallel_for((elements_ + kStagger) * streams, kGrain,
               [&](int64_t begin, int64_t end) { std::fill(data + begin, data + end, 0.5f); });
}

double StreamPeer::bytes() const {
  return static_cast<double>(elements_) * 4 * (mix_.reads + mix_.writes);
}

void StreamPeer::run() const {
  auto* data = static_cast<float*>(block_->data());
  parallel_for(elements_, kGrain, [&](int64_t begin, int64_t end) {
    const float value =
        HWY_DYNAMIC_DISPATCH(run_stream)(mix_, data, elements_ + kStagger, begin, end);
    if (begin == 0) sink.store(value, std::memory_order_relaxed);
  });
}

const char* simd_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace tephra
#endif  // HWY_ONCE

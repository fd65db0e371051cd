// SPDX-License-Identifier: Apache-2.0
// What this GPU can reach at best, measured: a large bf16 product through the library that ops use,
// and copies and reads of memory that no cache holds.
#include <algorithm>

#include "tephra/base/number.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/device/memory.h"

namespace tephra::gpu {
namespace {

constexpr int64_t kCeilingSide = 8192;
constexpr int kCeilingRuns = 10;

// Numbers in [-1, 1) that look random: a product of zeros would run faster than any real one.
__global__ void fill_noise(bf16* x, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint32_t bits = static_cast<uint32_t>(i) * 2654435761u;
  bits ^= bits >> 15;
  bits *= 2246822519u;
  bits ^= bits >> 13;
  x[i] = bf16(static_cast<float>(bits) * 0x1.0p-31f - 1.0f);
}

// Reads all of it, sixteen bytes a thread at a time, and writes next to nothing.
__global__ void read_stream(const Bits128* from, int64_t count, uint32_t* out) {
  constexpr int kEach = 8;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  uint32_t sum = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += kEach * step) {
    Bits128 v[kEach] = {};
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (i + k * step < count) v[k] = load_once(from + i + k * step);
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) sum += v[k].at[0] ^ v[k].at[1] ^ v[k].at[2] ^ v[k].at[3];
  }
  if (sum == 0x9e3779b9u) *out = sum;  // so that the reads are not for nothing
}

// Seconds of the fastest of some runs, after one that is not timed.
template <class F>
double best_seconds(Stream& stream, F&& run) {
  RawEvent begin = nullptr, end = nullptr;
  check(TEPHRA_GPU_API(EventCreate)(&begin), "creating an event");
  check(TEPHRA_GPU_API(EventCreate)(&end), "creating an event");
  double best = 1e30;
  for (int i = 0; i <= kCeilingRuns; ++i) {
    check(TEPHRA_GPU_API(EventRecord)(begin, stream.raw()), "timing");
    run();
    check(TEPHRA_GPU_API(EventRecord)(end, stream.raw()), "timing");
    stream.synchronize();
    float milliseconds = 0;
    check(TEPHRA_GPU_API(EventElapsedTime)(&milliseconds, begin, end), "timing");
    if (i > 0) best = std::min(best, double(milliseconds) * 1e-3);
  }
  (void)TEPHRA_GPU_API(EventDestroy)(begin);
  (void)TEPHRA_GPU_API(EventDestroy)(end);
  return best;
}

double read_speed(Device device, Stream& s) {
  const int64_t bytes =
      std::min(int64_t{4} << 30, memory(device).free_bytes / 2) / (1 << 20) * (1 << 20);
  const auto a = Storage::allocate(device, bytes, Purpose::workspace);
  const auto out = Storage::allocate(device, 16, Purpose::workspace);
  fill_bytes(device, a->data(), 1, bytes);
  const double seconds = best_seconds(s, [&] {
    s.launch(read_stream, {.blocks = 4096, .threads = 256}, static_cast<const Bits128*>(a->data()),
             bytes / int64_t{sizeof(Bits128)}, static_cast<uint32_t*>(out->data()));
  });
  return double(bytes) / seconds;
}

}  // namespace

Ceilings measure_ceilings(Device device) {
  Stream& s = stream(device);
  s.enter();
  const int64_t side = kCeilingSide, count = side * side, bytes = 2 * count;
  const auto a = Storage::allocate(device, bytes, Purpose::workspace);
  const auto b = Storage::allocate(device, bytes, Purpose::workspace);
  const auto c = Storage::allocate(device, bytes, Purpose::workspace);
  for (const auto& x : {a, b}) {
    s.launch(fill_noise, {.blocks = (count + 255) / 256}, static_cast<bf16*>(x->data()), count);
  }
  const double product = best_seconds(s, [&] {
    gemm(s, {side, side, side, a->data(), side, false, b->data(), side, true, c->data(), side,
             Number::bf16, Number::bf16});
  });
  const double moved =
      best_seconds(s, [&] { copy(device, Direction::on_device, b->data(), a->data(), bytes); });
  const double flops = 2.0 * double(side) * double(side) * double(side);
  return {flops / product, 2.0 * double(bytes) / moved, read_speed(device, s)};
}

}  // namespace tephra::gpu

// SPDX-License-Identifier: Apache-2.0
// Letters between the blocks of a kernel: words of eight bytes in global memory that hold four
// bytes and the time of their writing. Who needs them reads until the time is right: no barrier, no
// fence.
#pragma once

#include "tephra/core/gpu_kernel.h"

namespace tephra::zaya1 {

using Letter = uint64_t;

__device__ inline Letter letter(uint32_t bits, uint32_t time) { return Letter{time} << 32 | bits; }

__device__ inline void post(Letter* to, uint32_t bits, uint32_t time) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(letter(bits, time)) : "memory");
}
__device__ inline void post(Letter* to, float value, uint32_t time) {
  post(to, __float_as_uint(value), time);
}
__device__ inline void post_two(Letter* to, uint32_t first, uint32_t second, uint32_t time) {
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(letter(first, time)),
               "l"(letter(second, time))
               : "memory");
}

__device__ inline void read_two(Letter* words, const Letter* from) {
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(words[0]), "=l"(words[1])
               : "l"(from)
               : "memory");
}

inline constexpr uint32_t kWholeWave = 0xffffffffu;

// Letters two at a time, pairs `apart` from each other, when all are there. kTogether: those of all
// lanes of a wave, which otherwise may go on one by one, and is to be brought together by
// __syncwarp.
template <int kCount, bool kTogether = false>
struct Letters {
  static_assert(kCount % 2 == 0);
  uint32_t bits[kCount];

  __device__ Letters(const Letter* from, uint32_t time, int apart = 2)
      : Letters([&](int pair) { return from + pair * apart; }, time) {}
  // at(i): where pair i is.
  template <class At>
  requires requires(const At& at) { at(0); }
  __device__ Letters(const At& at, uint32_t time) {
    bool here = false;
    while (!here) {
      Letter words[kCount];
#pragma unroll
      for (int i = 0; i < kCount; i += 2) read_two(words + i, at(i / 2));
      here = true;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        here = here && static_cast<uint32_t>(words[i] >> 32) == time;
        bits[i] = static_cast<uint32_t>(words[i]);
      }
      if constexpr (kTogether) here = __all_sync(kWholeWave, here);
    }
  }
  __device__ float value(int i) const { return __uint_as_float(bits[i]); }
};

// A lane's letters of up to kCount parts, `stride` apart, and two more that adjoin; by whole waves.
template <int kCount>
__device__ void collect_parts(const Letter* from, int stride, int count, const Letter* two,
                              uint32_t time, float (&values)[kCount], float (&both)[2]) {
  bool here = false;
  while (!here) {
    here = true;
    Letter words[kCount], more[2];
    read_two(more, two);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      words[i] = letter(0, time);
      if (i < count) {
        asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];"
                     : "=l"(words[i])
                     : "l"(from + i * stride)
                     : "memory");
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      here = here && static_cast<uint32_t>(words[i] >> 32) == time;
      values[i] = __uint_as_float(static_cast<uint32_t>(words[i]));
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      here = here && static_cast<uint32_t>(more[i] >> 32) == time;
      both[i] = __uint_as_float(static_cast<uint32_t>(more[i]));
    }
    here = __all_sync(kWholeWave, here);
  }
}

// Posts numbers of neighbouring lanes, two in a letter; `to` is where the first lane's goes. By
// whole waves.
__device__ inline void post_pairs(Letter* to, float value, int count, uint32_t time) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float next = gpu::shuffle_xor(value, 1);
  if (lane < count && lane % 2 == 0) post(to + lane / 2, gpu::bf16_pair(value, next), time);
}

}  // namespace tephra::zaya1

// SPDX-License-Identifier: Apache-2.0
// Quantised weights in kernels: the bytes are those of device/cpu/packed.h, read four at a time and
// widened in registers. A weight is scale * (code - 128), rounded once to bf16 where bf16 is
// wanted, so that a product has the bits of one with the weights written out.
#pragma once

#include "tephra/device/cpu/packed_kernels.h"
#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

// Two codes, each the low byte of a half, times a scale in both halves: two weights.
__device__ inline uint32_t packed_pair(uint32_t codes, uint32_t scale) {
  constexpr uint32_t kOnes = 0x3f803f80u, kMinusZeros = 0x80008000u;
  const uint32_t value = (codes & 0x007f007fu) | 0x43004300u;  // 128 + the low seven bits
  const uint32_t zero = (codes & 0x00800080u) ^ 0xc380c380u;   // -128 with the eighth, else -256
  return fma_pairs(fma_pairs(value, kOnes, zero), scale, kMinusZeros);
}

// The codes of four indices, the low hex digits.
__device__ inline uint32_t packed_codes4(uint32_t indices) {
  constexpr auto word = [](size_t i) {
    uint32_t bytes = 0;
    for (size_t k = 0; k < 4; ++k) bytes |= uint32_t{cpu::kCodes4[4 * i + k]} << (8 * k);
    return bytes;
  };
  constexpr uint32_t k0 = word(0), k1 = word(1), k2 = word(2), k3 = word(3);
  const uint32_t within = indices & 0x7777u;
  return pick_bytes(pick_bytes(k0, k1, within), pick_bytes(k2, k3, within),
                    0x3210u | (indices >> 1 & 0x4444u));
}

// Eight columns of one row, as they are stored.
template <PackedFormat kFormat>
struct PackedEight {
  static constexpr int kWords = kFormat == PackedFormat::q8 ? 2 : 1;
  uint32_t words[kWords];

  // As bf16; `scale` is in both halves.
  __device__ Bits128 weights(uint32_t scale) const {
    if constexpr (kFormat == PackedFormat::q8) {
      const auto pair = [&](int word, uint32_t which) {
        return packed_pair(pick_bytes(words[word], 0, which), scale);
      };
      return {{pair(0, 0x4140), pair(0, 0x4342), pair(1, 0x4140), pair(1, 0x4342)}};
    } else {
      const uint32_t a = packed_codes4(words[0]), b = packed_codes4(words[0] >> 16);
      return {{packed_pair(a, scale), packed_pair(b, scale), packed_pair(a >> 8, scale),
               packed_pair(b >> 8, scale)}};
    }
  }
  __device__ int code(int column) const {
    const int byte = column % 4;
    if constexpr (kFormat == PackedFormat::q8) {
      return static_cast<int>(words[column / 4] >> (8 * byte) & 255u);
    } else {
      return static_cast<int>(packed_codes4(words[0] >> (8 * byte + column / 4 * 4)) & 255u);
    }
  }
};

// A matrix, or several of whole panels one after another, of so many groups of columns.
template <PackedFormat kFormat>
struct PackedPanels {
  static constexpr int kRows = cpu::kPanelRows, kColumns = cpu::kGroupColumns;
  static constexpr int kScaleBytes = kRows * 2;  // of a group
  static constexpr int kCodeBytes = kRows * kColumns / (kFormat == PackedFormat::q8 ? 1 : 2);

  const std::byte* data;
  int groups;

  // Of a word of codes in its panel: columns 8 `eight` of the group and on, the first or the second
  // word of them.
  __device__ static int code_offset(int groups, int row, int group, int eight, int word) {
    const int block = eight * PackedEight<kFormat>::kWords + word;
    return groups * kScaleBytes + group * kCodeBytes + (block * kRows + row) * 4;
  }

  __device__ const std::byte* panel(int64_t row) const {
    return data + row / kRows * (int64_t{groups} * (kScaleBytes + kCodeBytes));
  }
  __device__ bf16 scale(int64_t row, int group) const {
    return reinterpret_cast<const bf16*>(panel(row) + group * kScaleBytes)[row % kRows];
  }
  // Columns 8 `eight` of the group and on.
  __device__ PackedEight<kFormat> codes(int64_t row, int group, int eight) const {
    using Eight = PackedEight<kFormat>;
    const std::byte* from = panel(row);
    const int in_panel = static_cast<int>(row % kRows);
    Eight v;
#pragma unroll
    for (int w = 0; w < Eight::kWords; ++w) {
      v.words[w] = load_word_once(from + code_offset(groups, in_panel, group, eight, w));
    }
    return v;
  }
  __device__ float value(int64_t row, int64_t column) const {
    const int group = static_cast<int>(column / kColumns), at = static_cast<int>(column % kColumns);
    const int code = codes(row, group, at / 8).code(at % 8);
    return float(scale(row, group)) * static_cast<float>(code - static_cast<int>(cpu::kCodeZero));
  }
};

// Calls f.operator()<kFormat>().
template <class F>
void visit_packed(PackedFormat format, F&& f) {
  if (format == PackedFormat::q8) {
    f.template operator()<PackedFormat::q8>();
  } else {
    f.template operator()<PackedFormat::q4>();
  }
}

}  // namespace tephra::gpu

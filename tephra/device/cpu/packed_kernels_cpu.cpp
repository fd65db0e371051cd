// SPDX-License-Identifier: Apache-2.0
// Sums of 8-bit codes times 16-bit activations, exact in 32 bits: at most 32 * 255 * 32512. With
// VNNI an activation is two signed bytes, high and low; elsewhere it is multiplied whole.
#include "tephra/device/cpu/packed_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/device/cpu/packed_kernels_cpu.cpp"
#define HWY_WANT_AVX3_DL  // the target that has VNNI
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::cpu::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

using TagI = hn::CappedTag<int32_t, kPanelRows>;
using TagF = hn::CappedTag<float, kPanelRows>;
using TagB = hn::Repartition<uint8_t, TagI>;
using VecI = hn::Vec<TagI>;
using VecF = hn::Vec<TagF>;
constexpr int kLanes = static_cast<int>(HWY_MIN(kPanelRows, HWY_LANES(int32_t)));
constexpr int kVectors = static_cast<int>(kPanelRows) / kLanes;  // of a panel
constexpr int kSteps = static_cast<int>(kGroupColumns) / 4;      // of four columns, in a group

// Where in the 8 bytes of four activations their parts lie, four codes of each lane ready to be
// multiplied, a sum that may still be in parts, and the four activations in every lane.
#if HWY_TARGET == HWY_AVX3_DL

constexpr bool kSplitBytes = true;
struct Codes {
  VecI all;
};
struct Sum {
  VecI high, low;
};
HWY_INLINE Codes ready(VecI codes) { return {codes}; }
HWY_INLINE Sum start(int32_t offset) { return {hn::Zero(TagI()), hn::Set(TagI(), offset)}; }
HWY_INLINE VecI add_bytes(VecI sum, VecI codes, VecI x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(codes.raw), "v"(x.raw));
  return sum;
}
struct Factors {
  VecI high, low;
};
HWY_INLINE Factors factors(const int32_t* x) {
  return {hn::Set(TagI(), x[0]), hn::Set(TagI(), x[1])};
}
HWY_INLINE void add(Sum& sum, const Codes& c, const Factors& x) {
  sum.high = add_bytes(sum.high, c.all, x.high);
  sum.low = add_bytes(sum.low, c.all, x.low);
}
HWY_INLINE VecI total(const Sum& sum) { return hn::Add(hn::ShiftLeft<8>(sum.high), sum.low); }

#elif HWY_ARCH_X86

constexpr bool kSplitBytes = false;
struct Codes {
  VecI even, odd;  // columns, two 16-bit values in each lane
};
struct Sum {
  VecI all;
};
HWY_INLINE Codes ready(VecI codes) {
  const auto mask = hn::Set(TagI(), 0x00ff00ff);
  return {hn::And(codes, mask), hn::And(hn::ShiftRight<8>(codes), mask)};
}
HWY_INLINE Sum start(int32_t offset) { return {hn::Set(TagI(), offset)}; }
HWY_INLINE VecI add_pairs(VecI sum, VecI codes, VecI x) {
  const hn::Repartition<int16_t, TagI> d16;
  VecI unused = hn::Zero(TagI());  // on x86 the pairs of a lane stay in it
  return hn::ReorderWidenMulAccumulate(TagI(), hn::BitCast(d16, codes), hn::BitCast(d16, x), sum,
                                       unused);
}
struct Factors {
  VecI even, odd;
};
HWY_INLINE Factors factors(const int32_t* x) {
  return {hn::Set(TagI(), x[0]), hn::Set(TagI(), x[1])};
}
HWY_INLINE void add(Sum& sum, const Codes& c, const Factors& x) {
  sum.all = add_pairs(add_pairs(sum.all, c.even, x.even), c.odd, x.odd);
}
HWY_INLINE VecI total(const Sum& sum) { return sum.all; }

#else

constexpr bool kSplitBytes = false;
struct Codes {
  VecI column[4];
};
struct Sum {
  VecI all;
};
HWY_INLINE Codes ready(VecI codes) {
  const auto mask = hn::Set(TagI(), 0xff);
  return {{hn::And(codes, mask), hn::And(hn::ShiftRight<8>(codes), mask),
           hn::And(hn::ShiftRight<16>(codes), mask), hn::And(hn::ShiftRight<24>(codes), mask)}};
}
HWY_INLINE Sum start(int32_t offset) { return {hn::Set(TagI(), offset)}; }
struct Factors {
  VecI column[4];
};
HWY_INLINE Factors factors(const int32_t* x) {
  const TagI di;
  return {{hn::Set(di, static_cast<int16_t>(x[0])), hn::Set(di, static_cast<int16_t>(x[1])),
           hn::Set(di, x[0] >> 16), hn::Set(di, x[1] >> 16)}};
}
HWY_INLINE void add(Sum& sum, const Codes& c, const Factors& x) {
  for (int i = 0; i < 4; ++i) sum.all = hn::Add(sum.all, hn::Mul(c.column[i], x.column[i]));
}
HWY_INLINE VecI total(const Sum& sum) { return sum.all; }

#endif

// Four activations as 8 bytes: high bytes, then low bytes; or 16-bit columns 0, 2, 1, 3.
HWY_INLINE void arrange(const int32_t* q, int32_t* to) {
  if constexpr (kSplitBytes) {
    int8_t bytes[8];
    for (int i = 0; i < 4; ++i) {
      const int32_t high = (q[i] + 128) >> 8;
      bytes[i] = static_cast<int8_t>(high);
      bytes[4 + i] = static_cast<int8_t>(q[i] - high * 256);
    }
    std::memcpy(to, bytes, sizeof bytes);
  } else {
    const int16_t words[4] = {static_cast<int16_t>(q[0]), static_cast<int16_t>(q[2]),
                              static_cast<int16_t>(q[1]), static_cast<int16_t>(q[3])};
    std::memcpy(to, words, sizeof words);
  }
}

// 32 floats. A value that is not finite makes the scale NaN, and with it every result of the row.
HWY_INLINE void quantise_group(const float* x, int32_t* values, float* scale, int32_t* offset) {
  const TagF df;
  const TagI di;
  auto top = hn::Zero(df);
  for (int i = 0; i < kGroupColumns; i += kLanes) {
    const auto size = hn::Abs(hn::LoadU(df, x + i));
    // Max may drop a NaN; this keeps it.
    top = hn::IfThenElse(hn::Or(hn::IsNaN(size), hn::Gt(size, top)), size, top);
  }
  HWY_ALIGN float tops[kLanes];
  hn::Store(top, df, tops);
  float largest = 0;
  for (const float t : tops) largest = !(t <= largest) && !std::isnan(largest) ? t : largest;
  const bool usable = largest <= std::numeric_limits<float>::max();
  // Not below the normal numbers: the quotient must be finite.
  const float inverse = usable ? kActivationMax / std::max(largest, 0x1p-100f) : 0.0f;
  HWY_ALIGN int32_t q[kGroupColumns];
  auto sum = hn::Zero(di);
  for (int i = 0; i < kGroupColumns; i += kLanes) {
    auto value = hn::Zero(di);
    if (usable) value = hn::NearestInt(hn::Mul(hn::LoadU(df, x + i), hn::Set(df, inverse)));
    hn::Store(value, di, q + i);
    sum = hn::Add(sum, value);
  }
  for (int step = 0; step < kSteps; ++step) arrange(q + 4 * step, values + 2 * step);
  *scale = usable ? std::max(largest, 0x1p-100f) / kActivationMax
                  : std::numeric_limits<float>::quiet_NaN();
  *offset = -static_cast<int32_t>(kCodeZero) * hn::GetLane(hn::SumOfLanes(di, sum));
}

void quantise_row_of(const float* x, int64_t k, const QuantisedRows& to, int64_t r) {
  for (int64_t g = 0; g < to.groups; ++g) {
    const int64_t at = r * to.groups + g;
    const float* from = x + g * kGroupColumns;
    float padded[kGroupColumns] = {};
    if (const int64_t left = k - g * kGroupColumns; left < kGroupColumns) {
      std::copy_n(from, left, padded);
      from = padded;
    }
    quantise_group(from, to.values + at * 2 * kSteps, to.scales + at, to.offsets + at);
  }
}

// The codes of four columns, for the lanes of one vector of a panel: those of step 2 pair + kHalf.
template <PackedFormat kFormat, int kHalf>
HWY_INLINE Codes codes_at(const std::byte* group, int pair, int vector, hn::Vec<TagB> table) {
  const TagB db;
  const TagI di;
  const int block = kFormat == PackedFormat::q8 ? 2 * pair + kHalf : pair;
  const std::byte* at = group + (block * kVectors + vector) * kLanes * 4;
  const VecI all = hn::BitCast(di, hn::LoadU(db, reinterpret_cast<const uint8_t*>(at)));
  if constexpr (kFormat == PackedFormat::q8) {
    return ready(all);
  } else {
    const VecI indices = kHalf == 0 ? all : hn::ShiftRight<4>(all);
    const auto low = hn::And(hn::BitCast(db, indices), hn::Set(db, uint8_t{15}));
    return ready(hn::BitCast(di, hn::TableLookupBytes(table, low)));
  }
}

// Asks for what lies some groups ahead of a panel that is read alone: first its own, then the next
// panel's, for panels lie one behind the other. One stream in the order of the addresses is what
// the memory likes best; without this, the hardware would stop it at the end of every page. What is
// asked for behind the last panel of a share is little (docs/decisions/0063-*.md has the figures).
template <PackedFormat kFormat>
HWY_INLINE void ask_ahead(const std::byte* panel, int64_t g) {
  constexpr bool kQ8 = kFormat == PackedFormat::q8;
  constexpr int64_t kAhead = 8192;
  constexpr int64_t kGroup = kPanelRows * (kGroupColumns / (kQ8 ? 1 : 2) + 2);  // codes and scales
  constexpr int kRead = 0, kCache = kQ8 ? 3 : 2;  // the first, the second
  const auto at = reinterpret_cast<uintptr_t>(panel) + static_cast<uintptr_t>(kAhead + g * kGroup);
  for (int64_t line = 0; line < kGroup; line += 64) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): may lead behind the matrix, is never read through
    __builtin_prefetch(reinterpret_cast<const void*>(at + static_cast<uintptr_t>(line)), kRead,
                       kCache);
  }
}

// kRows rows of x by kPanels panels, each activation put into a register once for all of them.
template <PackedFormat kFormat, int kRows, int kPanels>
HWY_INLINE void block(const PackedTile& t, int64_t panel, int64_t row) {
  const TagF df;
  const PackedLayout& layout = t.product.weight.layout;
  const int64_t groups = layout.groups();
  HWY_ALIGN static constexpr std::array<uint8_t, 16> kTable = kCodes4;
  const auto table = hn::LoadDup128(TagB(), kTable.data());
  constexpr int kSums = kPanels * kVectors;
  VecF sums[kRows][kSums];
  for (auto& of_row : sums) {
    for (auto& sum : of_row) sum = hn::Zero(df);
  }
  const std::byte* panels[kPanels];
  for (int p = 0; p < kPanels; ++p) panels[p] = t.product.weight.panel(panel + p);

  // Later rows, and any of a tall tile, find most of what they read in a cache.
  const bool asks = kPanels == 1 && kRows < 4 && row == t.row_begin;
  for (int64_t g = 0; g < groups; ++g) {
    if (asks) ask_ahead<kFormat>(panels[0], g);
    const int64_t at = row * groups + g;
    Sum exact[kRows][kSums];
    for (int r = 0; r < kRows; ++r) {
      for (auto& sum : exact[r]) sum = start(t.x.offsets[at + r * groups]);
    }
    for (int pair = 0; pair < kSteps / 2; ++pair) {
      const auto add_half = [&]<int kHalf>(std::integral_constant<int, kHalf>) HWY_ATTR {
        Codes codes[kSums];
        for (int s = 0; s < kSums; ++s) {
          const std::byte* group =
              panels[s / kVectors] + layout.scale_bytes() + g * layout.group_bytes();
          codes[s] = codes_at<kFormat, kHalf>(group, pair, s % kVectors, table);
        }
        for (int r = 0; r < kRows; ++r) {
          const int64_t step = (at + r * groups) * kSteps + 2 * pair + kHalf;
          const Factors x = factors(t.x.values + 2 * step);
          for (int s = 0; s < kSums; ++s) add(exact[r][s], codes[s], x);
        }
      };
      add_half(std::integral_constant<int, 0>());
      add_half(std::integral_constant<int, 1>());
    }
    for (int s = 0; s < kSums; ++s) {
      const auto* scales = reinterpret_cast<const bf16*>(panels[s / kVectors]) + g * kPanelRows;
      const VecF scale = load(scales + s % kVectors * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const VecF factor = hn::Mul(scale, hn::Set(df, t.x.scales[at + r * groups]));
        sums[r][s] = hn::MulAdd(hn::ConvertTo(df, total(exact[r][s])), factor, sums[r][s]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      const int64_t column = (panel + p) * kPanelRows;
      const int64_t width = std::min(kPanelRows, layout.rows - column);
      HWY_ALIGN float out[kPanelRows];
      for (int v = 0; v < kVectors; ++v) hn::Store(sums[r][p * kVectors + v], df, out + v * kLanes);
      float* y = t.product.y + (row + r) * t.product.ldy + column;
      const float* bias = t.product.bias;
      for (int64_t c = 0; c < width; ++c) y[c] = bias ? out[c] + bias[column + c] : out[c];
    }
  }
}

template <PackedFormat kFormat, int kPanels>
HWY_INLINE void panel_block(const PackedTile& t, int64_t panel) {
  int64_t row = t.row_begin;
  if constexpr (kPanels <= 2) {
    for (; row + 4 <= t.row_end; row += 4) block<kFormat, 4, kPanels>(t, panel, row);
  }
  for (; row + 2 <= t.row_end; row += 2) block<kFormat, 2, kPanels>(t, panel, row);
  for (; row < t.row_end; ++row) block<kFormat, 1, kPanels>(t, panel, row);
}

template <PackedFormat kFormat>
HWY_INLINE void tile(const PackedTile& t) {
  int64_t panel = t.panel_begin;
  const int64_t rows = t.row_end - t.row_begin;
  // Few rows wait for the weights, and read them in order; more are worth two panels at a time.
  for (; rows < 4 && panel < t.panel_end; ++panel) panel_block<kFormat, 1>(t, panel);
  for (; panel + 2 <= t.panel_end; panel += 2) panel_block<kFormat, 2>(t, panel);
  for (; panel < t.panel_end; ++panel) panel_block<kFormat, 1>(t, panel);
}

void packed_tile_of(const PackedTile& t) {
  if (t.product.weight.layout.format == PackedFormat::q8) return tile<PackedFormat::q8>(t);
  tile<PackedFormat::q4>(t);
}

}  // namespace tephra::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::cpu {
namespace {

HWY_EXPORT(quantise_row_of);
HWY_EXPORT(packed_tile_of);

}  // namespace

void quantise_row(const float* x, int64_t k, const QuantisedRows& to, int64_t r) {
  HWY_DYNAMIC_DISPATCH(quantise_row_of)(x, k, to, r);
}

void packed_tile(const PackedTile& tile) { HWY_DYNAMIC_DISPATCH(packed_tile_of)(tile); }

}  // namespace tephra::cpu
#endif

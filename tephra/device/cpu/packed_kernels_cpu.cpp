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
#include <array>
#include <atomic>
#include <cstring>
#include <limits>

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
// The same for activations that meet one vector of codes only: they come from memory within the
// instruction. The fewer there are for a line of codes, the more lines a core looks ahead.
HWY_INLINE VecI add_bytes_from(VecI sum, VecI codes, const int32_t* x) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(codes.raw), "m"(*x));
  return sum;
}
HWY_INLINE void add_once(Sum& sum, const Codes& c, const int32_t* x) {
  sum.high = add_bytes_from(sum.high, c.all, x);
  sum.low = add_bytes_from(sum.low, c.all, x + 1);
}
// Of 64 entries, by the lower six bits of each index.
HWY_INLINE VecI look_up(VecI indices, hn::Vec<TagB> table) {
  return VecI{_mm512_permutexvar_epi8(indices.raw, table.raw)};
}
HWY_INLINE VecI total(const Sum& sum) { return hn::Add(hn::ShiftLeft<8>(sum.high), sum.low); }

#elif HWY_ARCH_X86

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

#if HWY_TARGET != HWY_AVX3_DL
HWY_INLINE void add_once(Sum& sum, const Codes& c, const int32_t* x) { add(sum, c, factors(x)); }
HWY_INLINE VecI look_up(VecI indices, hn::Vec<TagB> table) {
  const TagB db;
  const auto low = hn::And(hn::BitCast(db, indices), hn::Set(db, uint8_t{15}));
  return hn::BitCast(TagI(), hn::TableLookupBytes(table, low));
}
#endif

// Stores kLanes activations. Four of them are 8 bytes: high bytes, then low bytes; or 16-bit
// columns 0, 2, 1, 3.
HWY_INLINE void store_arranged(VecI q, int32_t* to) {
#if HWY_TARGET == HWY_AVX3_DL
  const VecI high = hn::ShiftRight<8>(hn::Add(q, hn::Set(TagI(), 128)));
  const VecI low = hn::Sub(q, hn::ShiftLeft<8>(high));
  // Not Highway's TruncateTo, which mixes up the bytes in Debian 12's version.
  const __m128i high_bytes = _mm512_cvtepi32_epi8(high.raw);
  const __m128i low_bytes = _mm512_cvtepi32_epi8(low.raw);
  auto* out = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(out, _mm_unpacklo_epi32(high_bytes, low_bytes));
  _mm_storeu_si128(out + 1, _mm_unpackhi_epi32(high_bytes, low_bytes));
#else
  HWY_ALIGN int32_t values[kLanes];
  hn::Store(q, TagI(), values);
  for (int i = 0; i < kLanes; i += 4) {
    const int16_t words[4] = {static_cast<int16_t>(values[i]), static_cast<int16_t>(values[i + 2]),
                              static_cast<int16_t>(values[i + 1]),
                              static_cast<int16_t>(values[i + 3])};
    std::memcpy(to + i / 2, words, sizeof words);
  }
#endif
}

// 32 floats. A value that is not finite makes the scale NaN, and with it every result of the row.
HWY_INLINE void quantise_group(const float* x, int32_t* values, float* scale, int32_t* offset) {
  const TagF df;
  const TagI di;
  const auto limit = hn::Set(df, std::numeric_limits<float>::max());
  auto top = hn::Zero(df);
  auto finite = hn::Le(top, limit);
  for (int i = 0; i < kGroupColumns; i += kLanes) {
    const auto size = hn::Abs(hn::LoadU(df, x + i));
    top = hn::Max(top, size);
    finite = hn::And(finite, hn::Le(size, limit));
  }
  const bool usable = hn::AllTrue(df, finite);
  // Not below the normal numbers: the quotient must be finite.
  const float largest = usable ? std::max(hn::GetLane(hn::MaxOfLanes(df, top)), 0x1p-100f) : 1.0f;
  const auto inverse = hn::Set(df, usable ? kActivationMax / largest : 0.0f);
  auto sum = hn::Zero(di);
  for (int i = 0; i < kGroupColumns; i += kLanes) {
    auto value = hn::Zero(di);
    if (usable) value = hn::NearestInt(hn::Mul(hn::LoadU(df, x + i), inverse));
    store_arranged(value, values + i / 2);
    sum = hn::Add(sum, value);
  }
  *scale = usable ? largest / kActivationMax : std::numeric_limits<float>::quiet_NaN();
  *offset = -static_cast<int32_t>(kCodeZero) * hn::GetLane(hn::SumOfLanes(di, sum));
}

// A store to each line. The last product's threads have read them, and a core asks for such a line
// only when a store to it leaves, one store after another: where each comes with much to compute,
// 2048 activations take 4 us instead of 2 (docs/decisions/0116-*.md).
HWY_INLINE void take_lines(void* from, int64_t bytes) {
  auto* at = static_cast<volatile uint8_t*>(from);
  for (int64_t i = 0; i < bytes; i += 64) at[i] = 0;
}

void quantise_row_of(const float* x, int64_t k, const QuantisedRows& to, int64_t r) {
  take_lines(to.values + r * to.groups * 2 * kSteps, to.groups * 2 * kSteps * 4);
  take_lines(to.scales + r * to.groups, to.groups * 4);
  take_lines(to.offsets + r * to.groups, to.groups * 4);
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

// A stored vector of 64 bytes or a part of it, and the codes that it holds: those of one step of
// four columns (q8) or of two (q4).
constexpr int steps_stored(PackedFormat format) { return format == PackedFormat::q8 ? 1 : 2; }

HWY_INLINE VecI stored_at(const std::byte* group, int block, int vector) {
  const std::byte* at = group + (block * kVectors + vector) * kLanes * 4;
  return hn::BitCast(TagI(), hn::LoadU(TagB(), reinterpret_cast<const uint8_t*>(at)));
}

template <PackedFormat kFormat>
HWY_INLINE Codes codes_of(VecI stored, int half, hn::Vec<TagB> table) {
  if constexpr (kFormat == PackedFormat::q8) {
    return ready(stored);
  } else {
    const VecI indices = half == 0 ? stored : hn::ShiftRight<4>(stored);
    return ready(look_up(indices, table));
  }
}

// Asks for lines ahead of `size` bytes that are about to be read. The hardware reads ahead by
// itself, but stops at the end of a page: a line now and then leads it into the next one, and from
// a panel into the next, for they lie one behind the other. With several rows a core computes for
// too long to keep the hardware going, and asks for every line.
template <int kRows>
HWY_INLINE void ask_ahead(const std::byte* from, int64_t size) {
  constexpr int64_t kAhead = kRows == 1 ? 4096 : 8192, kStep = kRows == 1 ? 512 : 64;
  for (int64_t at = kAhead; at < kAhead + size; at += kStep) {
    const auto line = reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(at);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): may lie behind the matrix, is never read through
    __builtin_prefetch(reinterpret_cast<const void*>(line), /*read*/ 0, /*second cache*/ 2);
  }
}

// What lies at the start of a panel, its scales. With one row all of them are fetched before any
// codes: so a core meets the lines of its share in the order of their addresses, and the hardware
// reads ahead as it does for plain loads. Scales that are met one by one between the codes cost a
// third of that (docs/decisions/0100-*.md).
template <int kRows>
HWY_INLINE void begin_panel(const std::byte* panel, int64_t scale_bytes) {
  for (int64_t at = 0; at < scale_bytes; at += 64) {
    if (at % 512 == 0) ask_ahead<kRows>(panel + at, 512);
    if (kRows == 1) __builtin_prefetch(panel + at, /*read*/ 0, /*first cache*/ 3);
  }
}

// The hardware reads ahead by the order of the loads: no compiler shall swap them.
HWY_INLINE void keep_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Lanes of y, the n-th of its row; the last ones may be partly or all beyond it.
HWY_INLINE void write_lanes(const PackedProduct& p, int64_t row, int64_t n, VecF sum) {
  const TagF df;
  const int64_t column = n * kLanes, left = p.weight.layout.rows - column;
  float* y = p.y + row * p.ldy + column;
  if (left >= kLanes) {
    hn::StoreU(p.bias ? hn::Add(sum, hn::LoadU(df, p.bias + column)) : sum, df, y);
    return;
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(sum, df, lanes);
  for (int64_t c = 0; c < left; ++c) y[c] = p.bias ? lanes[c] + p.bias[column + c] : lanes[c];
}

template <int kRows, int kPanels>
using Sums = VecF[kRows][kPanels * kVectors];

// The exact sums of group `at` of x. Each activation is put into a register once for all panels.
template <PackedFormat kFormat, int kRows, int kPanels, bool kStream>
HWY_INLINE void add_group(const QuantisedRows& x, int64_t at, const std::byte* codes,
                          int64_t panel_bytes, Sum (&exact)[kRows][kPanels * kVectors]) {
  constexpr int kSums = kPanels * kVectors;
  constexpr int kStored = steps_stored(kFormat), kBlocks = kSteps / kStored;
  // A stream in 8 bits loads a group before it computes, where there are registers for it. In 4
  // there is so much to compute between two loads that they stay in order by themselves.
  constexpr bool kOrdered = kStream && kFormat == PackedFormat::q8;
  constexpr int kAtOnce = kOrdered && kVectors == 1 ? kBlocks : 1;
  HWY_ALIGN static constexpr std::array<uint8_t, 16> kTable = kCodes4;
  const auto table = hn::LoadDup128(TagB(), kTable.data());
  for (int block = 0; block < kBlocks; block += kAtOnce) {
    VecI stored[kAtOnce][kSums];
    HWY_UNROLL(8)
    for (int b = 0; b < kAtOnce; ++b) {
      HWY_UNROLL(4)
      for (int s = 0; s < kSums; ++s) {
        stored[b][s] = stored_at(codes + s / kVectors * panel_bytes, block + b, s % kVectors);
        if constexpr (kOrdered) keep_order();
      }
    }
    HWY_UNROLL(8)
    for (int i = 0; i < kAtOnce * kStored; ++i) {
      Codes four[kSums];
      for (int s = 0; s < kSums; ++s) {
        four[s] = codes_of<kFormat>(stored[i / kStored][s], i % kStored, table);
      }
      HWY_UNROLL(4)
      for (int r = 0; r < kRows; ++r) {
        const int64_t step = (at + r * x.groups) * kSteps + block * kStored + i;
        const int32_t* values = x.values + 2 * step;
        if constexpr (kSums == 1) {
          add_once(exact[r][0], four[0], values);
        } else {
          const Factors of_x = factors(values);
          for (int s = 0; s < kSums; ++s) add(exact[r][s], four[s], of_x);
        }
      }
    }
  }
}

// kRows rows of x, from `row` on, by kPanels panels, `panel_bytes` apart.
template <PackedFormat kFormat, int kRows, int kPanels, bool kStream>
HWY_INLINE void multiply(const QuantisedRows& x, int64_t row, const std::byte* panel,
                         int64_t panel_bytes, Sums<kRows, kPanels>& sums) {
  const TagF df;
  constexpr int64_t kGroupBytes = PackedLayout{kFormat, 0, 0}.group_bytes();
  for (auto& of_row : sums) {
    for (auto& sum : of_row) sum = hn::Zero(df);
  }
  const int64_t groups = x.groups, scale_bytes = groups * kPanelRows * 2;
  if constexpr (kStream) begin_panel<kRows>(panel, scale_bytes);
  const std::byte *scales = panel, *codes = panel + scale_bytes;  // of a group, in the first panel
  for (int64_t at = row * groups; at < (row + 1) * groups; ++at) {
    if constexpr (kStream) ask_ahead<kRows>(codes, kGroupBytes);
    Sum exact[kRows][kPanels * kVectors];
    for (int r = 0; r < kRows; ++r) {
      for (auto& sum : exact[r]) sum = start(x.offsets[at + r * groups]);
    }
    add_group<kFormat, kRows, kPanels, kStream>(x, at, codes, panel_bytes, exact);
    for (int s = 0; s < kPanels * kVectors; ++s) {
      const auto* of_panel = reinterpret_cast<const bf16*>(scales + s / kVectors * panel_bytes);
      const VecF scale = load(of_panel + s % kVectors * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const VecF factor = hn::Mul(scale, hn::Set(df, x.scales[at + r * groups]));
        sums[r][s] = hn::MulAdd(hn::ConvertTo(df, total(exact[r][s])), factor, sums[r][s]);
      }
    }
    scales += kPanelRows * 2;
    codes += kGroupBytes;
  }
}

template <int kRows, int kPanels>
HWY_INLINE void write(const PackedProduct& p, int64_t row, int64_t panel,
                      const Sums<kRows, kPanels>& sums) {
  for (int r = 0; r < kRows; ++r) {
    for (int s = 0; s < kPanels * kVectors; ++s) {
      write_lanes(p, row + r, panel * kVectors + s, sums[r][s]);
    }
  }
}

// All rows of a tile, panel by panel. A core that waits for memory must find the next panel's
// address in a register: whatever it would load for it stands in line behind the codes.
template <PackedFormat kFormat, int kRows>
HWY_NOINLINE void stream(const PackedTile& t) {
  const PackedProduct product = t.product;
  const QuantisedRows x = t.x;
  const int64_t row = t.row_begin, end = t.panel_end;
  const int64_t panel_bytes = product.weight.layout.panel_bytes();
  const std::byte* at = product.weight.panel(t.panel_begin);
  for (int64_t panel = t.panel_begin; panel < end; ++panel, at += panel_bytes) {
    Sums<kRows, 1> sums;
    multiply<kFormat, kRows, 1, true>(x, row, at, panel_bytes, sums);
    write<kRows, 1>(product, row, panel, sums);
  }
}

template <PackedFormat kFormat, int kRows, int kPanels>
HWY_INLINE void block(const PackedTile& t, int64_t panel, int64_t row) {
  const PackedMatrix& weight = t.product.weight;
  const QuantisedRows x = t.x;
  Sums<kRows, kPanels> sums;
  multiply<kFormat, kRows, kPanels, false>(x, row, weight.panel(panel), weight.layout.panel_bytes(),
                                           sums);
  write<kRows, kPanels>(t.product, row, panel, sums);
}

template <PackedFormat kFormat, int kPanels>
HWY_INLINE void panel_block(const PackedTile& t, int64_t panel) {
  int64_t row = t.row_begin;
  for (; row + 4 <= t.row_end; row += 4) block<kFormat, 4, kPanels>(t, panel, row);
  for (; row + 2 <= t.row_end; row += 2) block<kFormat, 2, kPanels>(t, panel, row);
  for (; row < t.row_end; ++row) block<kFormat, 1, kPanels>(t, panel, row);
}

// Few rows wait for the weights, and read them in order; more are worth two panels at a time.
template <PackedFormat kFormat>
HWY_INLINE void tile(const PackedTile& t) {
  switch (t.row_end - t.row_begin) {
    case 1:
      return stream<kFormat, 1>(t);
    case 2:
      return stream<kFormat, 2>(t);
    case 3:
      return stream<kFormat, 3>(t);
    default:
      break;
  }
  int64_t panel = t.panel_begin;
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

// SPDX-License-Identifier: Apache-2.0
// Float weights to packed ones: a scale for each group of a row, then the nearest codes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/packed_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/device/cpu/pack_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::cpu::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

constexpr int kGroup = static_cast<int>(kGroupColumns);

// The codes of q4, less their zero.
HWY_INLINE float value_of(int index) { return static_cast<float>(kCodes4[index]) - kCodeZero; }

// The value of the nearest code, or its index as a float.
template <class F>
HWY_INLINE Vec<float> nearest(Vec<float> x, F&& answer) {
  auto found = set<float>(answer(0));
  for (int i = 1; i < 16; ++i) {
    const auto middle = set<float>((value_of(i - 1) + value_of(i)) / 2);
    found = hn::IfThenElse(hn::Gt(x, middle), set<float>(answer(i)), found);
  }
  return found;
}
HWY_INLINE Vec<float> nearest_value(Vec<float> x) { return nearest(x, value_of); }
HWY_INLINE Vec<float> nearest_index(Vec<float> x) {
  return nearest(x, [](int i) { return static_cast<float>(i); });
}

struct Fit {
  float error;       // squared
  float best_scale;  // for the codes that were chosen: least squares
};

HWY_INLINE Fit fit_of(const float* w, float scale) {
  auto error = set<float>(0), with_codes = set<float>(0), codes_squared = set<float>(0);
  const auto inverse = set<float>(1 / scale);
  for (int i = 0; i < kGroup; i += static_cast<int>(lanes<float>())) {
    const auto v = load(w + i);
    const auto code = nearest_value(hn::Mul(v, inverse));
    const auto off = hn::NegMulAdd(code, set<float>(scale), v);
    error = hn::MulAdd(off, off, error);
    with_codes = hn::MulAdd(v, code, with_codes);
    codes_squared = hn::MulAdd(code, code, codes_squared);
  }
  const float squares = sum_of_lanes<float>(codes_squared);
  return {sum_of_lanes<float>(error),
          squares > 0 ? sum_of_lanes<float>(with_codes) / squares : scale};
}

HWY_INLINE float rounded(float scale) { return static_cast<float>(bf16(scale)); }

// The scale of q4 for 32 weights, a bf16 value of either sign. The simple choice puts the largest
// weight on the outermost code.
float scale_of_four_bits(const float* w, float largest, bool search) {
  const float simple = rounded(-largest / 127);
  if (!search || simple == 0) return simple;
  constexpr int kTries = 10;
  float best = simple;
  float least = std::numeric_limits<float>::infinity();
  const auto consider = [&](float scale) HWY_ATTR {
    if (scale == 0 || !std::isfinite(1 / scale)) return scale;
    const Fit fit = fit_of(w, scale);
    if (fit.error < least) {
      least = fit.error;
      best = scale;
    }
    return fit.best_scale;
  };
  for (const float end : {-127.0f, 108.0f}) {
    for (int i = 0; i < kTries; ++i) {
      const float share = 0.78f + 0.035f * static_cast<float>(i);
      consider(rounded(consider(rounded(share * largest / end))));
    }
  }
  return best;
}

// What is stored of 32 weights for this scale: codes of q8, indices of q4.
void codes_of(PackedFormat format, const float* w, float scale, uint8_t* codes) {
  HWY_ALIGN float found[kGroup];
  const auto inverse = set<float>(scale == 0 ? 0 : 1 / scale);
  for (int i = 0; i < kGroup; i += static_cast<int>(lanes<float>())) {
    const auto x = hn::Mul(load(w + i), inverse);
    if (format == PackedFormat::q4) {
      store(found + i, nearest_index(x));
    } else {
      const auto code = hn::Clamp(hn::Round(x), set<float>(-127), set<float>(127));
      store(found + i, hn::Add(code, set<float>(kCodeZero)));
    }
  }
  for (int i = 0; i < kGroup; ++i) codes[i] = static_cast<uint8_t>(found[i]);
}

float scale_of(PackedFormat format, const float* w, bool search) {
  float largest = 0;  // in size, with its sign
  for (int i = 0; i < kGroup; ++i) {
    if (std::abs(w[i]) > std::abs(largest)) largest = w[i];
  }
  if (format == PackedFormat::q4) return scale_of_four_bits(w, largest, search);
  return rounded(std::abs(largest) / 127);
}

// Lane `lane` of a panel from one row of weights, [cols].
void pack_row(const PackedLayout& layout, const float* from, int64_t lane, bool search,
              std::byte* panel) {
  auto* scales = reinterpret_cast<bf16*>(panel);
  auto* codes = reinterpret_cast<uint8_t*>(panel) + layout.scale_bytes();
  for (int64_t g = 0; g < layout.groups(); ++g) {
    const int64_t count = std::min<int64_t>(kGroup, layout.cols - g * kGroup);
    float w[kGroup] = {};
    std::copy_n(from + g * kGroup, count, w);
    const float scale = scale_of(layout.format, w, search);
    scales[g * kPanelRows + lane] = bf16(scale);
    uint8_t found[kGroup];
    codes_of(layout.format, w, scale, found);
    uint8_t* to = codes + g * layout.group_bytes() + lane * 4;
    for (int i = 0; i < kGroup; ++i) {
      if (layout.format == PackedFormat::q8) {
        to[i / 4 * kPanelRows * 4 + i % 4] = found[i];
      } else if (i % 8 < 4) {
        to[i / 8 * kPanelRows * 4 + i % 4] = static_cast<uint8_t>(found[i] | found[i + 4] << 4);
      }
    }
  }
}

}  // namespace tephra::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::cpu {
namespace {

HWY_EXPORT(pack_row);

}  // namespace

void pack(const PackedLayout& layout, const float* from, bool search, std::byte* to) {
  parallel_for(layout.panels(), 1, [&](int64_t p, int64_t) {
    std::byte* panel = to + p * layout.panel_bytes();
    std::fill_n(panel, layout.panel_bytes(), std::byte{0});
    const int64_t count = std::min(kPanelRows, layout.rows - p * kPanelRows);
    for (int64_t lane = 0; lane < count; ++lane) {
      HWY_DYNAMIC_DISPATCH(pack_row)
      (layout, from + (p * kPanelRows + lane) * layout.cols, lane, search, panel);
    }
  });
}

}  // namespace tephra::cpu
#endif

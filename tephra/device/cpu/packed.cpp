// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/cpu/packed.h"

#include <algorithm>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/device/cpu/packed_kernels.h"
#include "tephra/device/cpu/scratch.h"

namespace tephra::cpu {
namespace {

// Tiles are cut by shape alone: so many bytes of weights that handing one out is worth it, and in
// tall products rows that stay in a cache together with their weights. With few rows a core that
// goes from one tile to the next loses some of its stream: where tiles are many, as in an output
// projection, they are larger (docs/decisions/0106-*.md).
struct Cuts {
  int64_t panels, rows;  // of a tile
  int64_t count;         // of tiles

  explicit Cuts(const PackedProduct& p) {
    constexpr int64_t kLeastBytes = 128 << 10, kMostBytes = 1 << 20, kMany = 64;
    constexpr int64_t kFewRows = 3, kTallRows = 128;
    const PackedLayout& layout = p.weight.layout;
    const int64_t most = p.count <= kFewRows ? kMostBytes : kLeastBytes;
    const int64_t bytes = std::clamp(layout.bytes() / kMany, kLeastBytes, most);
    const int64_t wanted = ceil_div(bytes, std::max<int64_t>(1, layout.panel_bytes()));
    constexpr int64_t kBlock = 2;  // panels that a kernel reads side by side, at most
    panels = ceil_div(wanted, kBlock) * kBlock;
    rows = kTallRows;
    count = ceil_div(layout.panels(), panels) * ceil_div(p.count, rows);
  }
};

PackedTile tile_of(const PackedProduct& p, const QuantisedRows& x, const Cuts& cuts, int64_t i) {
  const int64_t across = ceil_div(p.weight.layout.panels(), cuts.panels);
  const int64_t panel = i % across * cuts.panels;
  const int64_t row = p.first + i / across * cuts.rows;
  return {p,     x,
          panel, std::min(panel + cuts.panels, p.weight.layout.panels()),
          row,   std::min(row + cuts.rows, p.first + p.count)};
}

// Kept by the thread that calls; the workers only read.
QuantisedRows quantised(const float* x, int64_t m, int64_t k, int64_t ldx) {
  thread_local Scratch<int32_t> values, offsets;
  thread_local Scratch<float> scales;
  const int64_t groups = ceil_div(k, kGroupColumns);
  const QuantisedRows rows{groups, values.get(m * groups * kGroupColumns / 2),
                           scales.get(m * groups), offsets.get(m * groups)};
  parallel_for(m, std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, k)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) quantise_row(x + r * ldx, k, rows, r);
               });
  return rows;
}

}  // namespace

void packed_gemm(const float* x, int64_t m, int64_t k, int64_t ldx,
                 std::span<const PackedProduct> products) {
  const QuantisedRows rows = quantised(x, m, k, ldx);
  std::vector<Cuts> cuts;
  std::vector<int64_t> first{0};  // tile of each product
  for (const PackedProduct& p : products) {
    TEPHRA_ASSERT(p.weight.layout.cols == k && p.first >= 0 && p.first + p.count <= m,
                  "every product takes rows of x");
    cuts.emplace_back(p);
    first.push_back(first.back() + cuts.back().count);
  }
  parallel_for(first.back(), 1, [&](int64_t at, int64_t) {
    const auto next = std::upper_bound(first.begin(), first.end(), at);
    const auto i = static_cast<size_t>(next - first.begin() - 1);
    packed_tile(tile_of(products[i], rows, cuts[i], at - first[i]));
  });
}

void unpack_row(const PackedMatrix& weight, int64_t row, float* to) {
  const PackedLayout& layout = weight.layout;
  const std::byte* panel = weight.panel(row / kPanelRows);
  const int64_t lane = row % kPanelRows;
  const auto* scales = reinterpret_cast<const bf16*>(panel);
  const auto* codes = reinterpret_cast<const uint8_t*>(panel) + layout.scale_bytes();
  for (int64_t c = 0; c < layout.cols; ++c) {
    const int64_t group = c / kGroupColumns, at = c % kGroupColumns;
    const uint8_t* of_group = codes + group * layout.group_bytes();
    const float scale = scales[group * kPanelRows + lane];
    uint8_t code = 0;
    if (layout.format == PackedFormat::q8) {
      code = of_group[(at / 4 * kPanelRows + lane) * 4 + at % 4];
    } else {
      const uint8_t both = of_group[(at / 8 * kPanelRows + lane) * 4 + at % 4];
      code = kCodes4[at % 8 < 4 ? both & 15 : both >> 4];
    }
    to[c] = scale * static_cast<float>(static_cast<int>(code) - static_cast<int>(kCodeZero));
  }
}

}  // namespace tephra::cpu

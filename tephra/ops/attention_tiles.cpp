// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/attention_tiles.h"

#include <algorithm>

namespace tephra::kernel {
namespace {

bool overlap(const AttentionTile& a, const AttentionTile& b) {
  return a.key < b.key_end && b.key < a.key_end;
}

// The keys of both.
AttentionTile joined(const AttentionTile& a, const AttentionTile& b) {
  if (a.key == a.key_end) return {a.row, b.row_end, b.key, b.key_end};
  if (b.key == b.key_end) return {a.row, b.row_end, a.key, a.key_end};
  return {a.row, b.row_end, std::min(a.key, b.key), std::max(a.key_end, b.key_end)};
}

bool belong_together(const AttentionTile& a, const AttentionTile& b) {
  return a.key == a.key_end || b.key == b.key_end || overlap(a, b);
}

// Bounds of key blocks, from the lowest key to after the highest: anew where a run of overlapping
// query blocks starts, so that a document's tiles are whole wherever it lies.
std::vector<int64_t> key_bounds(const std::vector<AttentionTile>& blocks, int64_t keys) {
  std::vector<AttentionTile> runs;
  for (const AttentionTile& block : blocks) {
    if (block.key == block.key_end) continue;
    if (runs.empty() || !overlap(runs.back(), block)) {
      runs.push_back(block);
    } else {
      runs.back() = joined(runs.back(), block);
    }
  }
  std::vector<int64_t> bounds;
  for (const AttentionTile& run : runs) {
    for (int64_t key = run.key; key < run.key_end; key += keys) bounds.push_back(key);
    bounds.push_back(run.key_end);
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

// Without the rows at either end that see none of its keys.
AttentionTile trimmed(AttentionTile tile, const KeyRanges& ranges) {
  const int32_t* first = ranges.first_N.data<int32_t>();
  const int32_t* last = ranges.last_N.data<int32_t>();
  const auto sees = [&](int64_t i) {
    return std::max<int64_t>(first[i], tile.key) < std::min<int64_t>(last[i], tile.key_end);
  };
  while (tile.row < tile.row_end && !sees(tile.row)) ++tile.row;
  while (tile.row < tile.row_end && !sees(tile.row_end - 1)) --tile.row_end;
  return tile;
}

}  // namespace

std::vector<AttentionTile> query_blocks(const KeyRanges& ranges, int64_t rows) {
  const int32_t* first = ranges.first_N.data<int32_t>();
  const int32_t* last = ranges.last_N.data<int32_t>();
  std::vector<AttentionTile> blocks;
  for (int64_t i = 0; i < ranges.first_N.numel(); ++i) {
    const AttentionTile query{i, i + 1, first[i], last[i]};
    if (!blocks.empty() && i - blocks.back().row < rows && belong_together(blocks.back(), query)) {
      blocks.back() = joined(blocks.back(), query);
    } else {
      blocks.push_back(query);
    }
  }
  return blocks;
}

bool is_decode_step(const std::vector<AttentionTile>& blocks, size_t b) {
  return blocks[b].row_end - blocks[b].row == 1 && (b == 0 || !overlap(blocks[b - 1], blocks[b])) &&
         (b + 1 == blocks.size() || !overlap(blocks[b], blocks[b + 1]));
}

std::vector<std::vector<AttentionTile>> tile_waves(const KeyRanges& ranges, int64_t rows,
                                                   int64_t keys) {
  const std::vector<AttentionTile> blocks = query_blocks(ranges, rows);
  const std::vector<int64_t> bounds = key_bounds(blocks, keys);
  std::vector<std::vector<AttentionTile>> waves;
  std::vector<size_t> next_wave(bounds.size(), 0);  // in which a block of keys is free again
  for (const AttentionTile& block : blocks) {
    if (block.key == block.key_end) continue;
    size_t wave = 0;
    // From the newest keys to the oldest: in the causal case each wave is then a diagonal.
    size_t j = static_cast<size_t>(std::lower_bound(bounds.begin(), bounds.end(), block.key_end) -
                                   bounds.begin());
    for (; j > 0 && bounds[j] > block.key; --j) {
      const AttentionTile tile =
          trimmed({block.row, block.row_end, std::max(bounds[j - 1], block.key),
                   std::min(bounds[j], block.key_end)},
                  ranges);
      if (tile.row == tile.row_end) continue;
      wave = std::max(wave, next_wave[j]);
      if (wave == waves.size()) waves.emplace_back();
      waves[wave].push_back(tile);
      next_wave[j] = ++wave;
    }
  }
  return waves;
}

}  // namespace tephra::kernel

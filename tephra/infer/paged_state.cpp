// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/paged_state.h"

#include <algorithm>
#include <limits>

#include "tephra/autograd/tape.h"
#include "tephra/base/parallel.h"
#include "tephra/ops/copy_rows.h"

namespace tephra {
namespace {

// Keys that attention on a GPU takes at once. Those of a sequence begin at a multiple of it, so
// that the same ones meet whatever else is in the pass.
constexpr int64_t kKeyTile = 128;

// The fixed state of one of `count` sequences.
Tensor part_of(const Tensor& fixed, int64_t count, int64_t index) {
  const int64_t rows = fixed.rows() / count;
  return fixed.slice_rows(index * rows, (index + 1) * rows);
}

void copy_part(const Tensor& to, int64_t to_count, int64_t to_index, const Tensor& from,
               int64_t from_count, int64_t from_index) {
  if (to.numel() == 0) return;
  copy_into(part_of(to, to_count, to_index), part_of(from, from_count, from_index));
}

int64_t most_state_rows(const StateSpec& spec) {
  int64_t rows = 1;
  for (const LayerStateSpec& l : spec.layers) rows = std::max(rows, l.conv_rows);
  return rows;
}

// The slots' rows of `from`, one after another, or back: one kernel for all sequences.
Tensor gathered(const Tensor& from, const Tensor& slot_N) {
  Tensor to({slot_N.numel(), from.dim(1), from.dim(2)}, from.dtype(), from.device());
  if (to.numel() == 0) return to;
  const int64_t width = from.dim(1) * from.dim(2);
  take_rows(to.view({slot_N.numel(), width}), from.view({from.dim(0), width}), slot_N);
  return to;
}

void put_back(const Tensor& to, const Tensor& from, const Tensor& slot_N) {
  if (from.numel() == 0) return;
  const int64_t width = to.dim(1) * to.dim(2), count = slot_N.numel();
  copy_rows(to.view({to.dim(0), width}), slot_N,
            from.view({from.dim(0), width}).slice_rows(0, count));
}

}  // namespace

PagedState::PagedState(Model& model, int64_t blocks, int64_t block_tokens, int64_t slots,
                       int64_t filler_tokens)
    : model_(model), spec_(model.state_spec()), block_tokens_(block_tokens), filler_slot_(slots) {
  require(blocks >= 1 && block_tokens >= 1 && slots >= 1,
          "paged state: expected a block, a token in it and a slot at least, got {}, {} and {}",
          blocks, block_tokens, slots);
  // The filler has a slot and the blocks behind the others for itself.
  const int64_t filler_blocks = ceil_div(filler_tokens, block_tokens);
  for (int64_t i = 0; i < filler_blocks; ++i) {
    filler_blocks_.push_back(static_cast<int32_t>(blocks + i));
  }
  filler_tokens_.assign(static_cast<size_t>(filler_tokens),
                        static_cast<int32_t>(model.tokens().bos));
  const int64_t rows = (blocks + filler_blocks) * block_tokens;
  require(
      rows <= std::numeric_limits<int32_t>::max(),
      "cache: {} blocks of {} tokens are more rows than can be numbered; use less memory for it",
      blocks, block_tokens);
  const DType dtype = model.parameters().dtype();
  device_ = model.parameters().device();
  const auto cache = [&](const Shape& shape) {
    return Tensor(shape, dtype, device_, Purpose::cache);
  };
  for (const LayerStateSpec& l : spec_.layers) {
    live_.push_back({.k = cache({rows, l.kv_width}),
                     .v = l.values_in_keys ? Tensor() : cache({rows, l.kv_width}),
                     .conv = cache({slots + 1, l.conv_rows, l.conv_width}),
                     .value = cache({slots + 1, 1, l.value_width})});
    saved_.push_back({.k = {},
                      .v = {},
                      .conv = cache({blocks, l.conv_rows, l.conv_width}),
                      .value = cache({blocks, 1, l.value_width})});
  }
  for (int64_t slot = 0; slot <= slots; ++slot) clear(slot);
  make_step(slots + 1, blocks);
}

// A sequence has as many blocks as there are, at most: some may be shared, but none twice.
void PagedState::make_step(int64_t slots, int64_t blocks) {
  const int64_t longest = std::min(blocks, ceil_div(model_.context_limit(), block_tokens_)) +
                          std::ssize(filler_blocks_);
  tables_.assign(static_cast<size_t>(slots), {});
  DecodeMemory memory{.layers = live_,
                      .tables = zeros({slots, longest}, DType::i32, device_, Purpose::cache),
                      .block_tokens = block_tokens_,
                      .filler_slot = filler_slot_};
  step_ = model_.decode_step(memory);
  if (!step_) return;
  device_tables_ = memory.tables;
  tell_table(filler_slot_, filler_blocks_);
}

// The device's table of a sequence's blocks; they seldom change.
void PagedState::tell_table(int64_t slot, std::span<const int32_t> blocks) {
  std::vector<int32_t>& told = tables_[static_cast<size_t>(slot)];
  if (std::equal(told.begin(), told.end(), blocks.begin(), blocks.end())) return;
  told.assign(blocks.begin(), blocks.end());
  const auto row = device_tables_.slice_rows(slot, slot + 1).column_view(0, std::ssize(told));
  copy_into(row, from_values({1, std::ssize(told)}, told));
}

DecodeStep* PagedState::decode(std::span<const Part> parts) {
  TEPHRA_ASSERT(step_ != nullptr, "takes_steps was asked");
  std::vector<DecodeStep::Row> rows;
  for (const Part& p : parts) {
    TEPHRA_ASSERT(
        p.tokens.size() == 1 && p.past < static_cast<int64_t>(p.blocks.size()) * block_tokens_,
        "a sequence has one token and a place for it");
    tell_table(p.slot, p.blocks);
    rows.push_back({p.tokens[0], static_cast<int32_t>(p.past), static_cast<int32_t>(p.slot)});
  }
  step_->run(rows);
  return step_.get();
}

int64_t PagedState::block_bytes(Model& model, int64_t block_tokens) {
  int64_t elements = 0;
  for (const LayerStateSpec& l : model.state_spec().layers) {
    elements += block_tokens * l.kv_width * (l.values_in_keys ? 1 : 2);
    elements += l.conv_rows * l.conv_width + l.value_width;
  }
  return elements * size_of(model.parameters().dtype());
}

void PagedState::clear(int64_t slot) {
  for (const LayerState& layer : live_) {
    for (const Tensor* fixed : {&layer.conv, &layer.value}) {
      if (fixed->numel() > 0) fill(part_of(*fixed, fixed->dim(0), slot), 0);
    }
  }
}

void PagedState::save(int64_t slot, int32_t block) {
  for (size_t i = 0; i < live_.size(); ++i) {
    const LayerState &from = live_[i], &to = saved_[i];
    copy_part(to.conv, to.conv.dim(0), block, from.conv, from.conv.dim(0), slot);
    copy_part(to.value, to.value.dim(0), block, from.value, from.value.dim(0), slot);
  }
}

void PagedState::restore(int32_t block, int64_t slot) {
  for (size_t i = 0; i < live_.size(); ++i) {
    const LayerState &from = saved_[i], &to = live_[i];
    copy_part(to.conv, to.conv.dim(0), slot, from.conv, from.conv.dim(0), block);
    copy_part(to.value, to.value.dim(0), slot, from.value, from.value.dim(0), block);
  }
}

void PagedState::copy_tokens(int32_t from, int32_t to, int64_t count) {
  const auto rows = [&](const Tensor& all, int64_t block) {
    return all.slice_rows(block * block_tokens_, block * block_tokens_ + count);
  };
  for (const LayerState& layer : live_) {
    for (const Tensor* all : {&layer.k, &layer.v}) {
      if (*all && all->numel() > 0) copy_into(rows(*all, to), rows(*all, from));
    }
  }
}

// The rows of the ranges count through the blocks of one part, then of the next; on a GPU a block
// that nobody sees there fills the last tile of keys.
PagedState::Rows PagedState::lay_out(std::span<const Part> parts) const {
  std::vector<int64_t> counts, past;
  std::vector<int32_t> ids, write, first, last, pages;
  for (const Part& p : parts) {
    const auto count = static_cast<int64_t>(p.tokens.size());
    TEPHRA_ASSERT(p.past + count <= static_cast<int64_t>(p.blocks.size()) * block_tokens_,
                  "a sequence has blocks for all of its tokens");
    const int64_t base = static_cast<int64_t>(pages.size()) * block_tokens_;
    counts.push_back(count);
    past.push_back(p.past);
    ids.insert(ids.end(), p.tokens.begin(), p.tokens.end());
    pages.insert(pages.end(), p.blocks.begin(), p.blocks.end());
    while (device_.kind == Device::Kind::gpu && std::ssize(pages) * block_tokens_ % kKeyTile != 0) {
      pages.push_back(p.blocks.back());
    }
    for (int64_t position = p.past; position < p.past + count; ++position) {
      const int64_t block = p.blocks[static_cast<size_t>(position / block_tokens_)];
      write.push_back(static_cast<int32_t>(block * block_tokens_ + position % block_tokens_));
      first.push_back(static_cast<int32_t>(base));
      last.push_back(static_cast<int32_t>(base + position + 1));
    }
  }
  const Shape n{static_cast<int64_t>(ids.size())};
  return {.segments = Segments::continued(counts, past),
          .ids_N = from_values(n, ids),
          .write_row_N = from_values(n, write),
          .ranges = {from_values(n, first), from_values(n, last),
                     from_values({static_cast<int64_t>(pages.size())}, pages), block_tokens_}};
}

KeyRanges PagedState::windowed(const Rows& rows, int64_t window) const {
  if (window == 0) return rows.ranges;
  KeyRanges r = rows.ranges;
  r.first_N = clone(r.first_N);
  for (int64_t i = 0; i < r.first_N.numel(); ++i) {
    int32_t& first = r.first_N.data<int32_t>()[i];
    first = std::max(first, r.last_N.data<int32_t>()[i] - static_cast<int32_t>(window));
  }
  return r;
}

void PagedState::gather(const Tensor& slot_N, Decoding& decoding) const {
  for (const LayerState& from : live_) {
    decoding.layers.push_back({.k = from.k,
                               .v = from.v,
                               .conv = gathered(from.conv, slot_N),
                               .value = gathered(from.value, slot_N)});
  }
}

void PagedState::scatter(const Tensor& slot_N, const Decoding& decoding) const {
  for (size_t i = 0; i < live_.size(); ++i) {
    const LayerState &from = decoding.layers[i], &to = live_[i];
    put_back(to.conv, from.conv, slot_N);
    put_back(to.value, from.value, slot_N);
  }
}

// Asks for the fixed state where a part fills a block and goes on: these blocks.
std::vector<int32_t> PagedState::keep_at_block_ends(std::span<const Part> parts,
                                                    Decoding& decoding) const {
  std::vector<int32_t> blocks, rows;
  int64_t row = 0;
  for (const Part& p : parts) {
    const auto count = static_cast<int64_t>(p.tokens.size());
    const int64_t first = (p.past / block_tokens_ + 1) * block_tokens_;
    for (int64_t end = first; end < p.past + count; end += block_tokens_) {
      if (end - p.past < most_state_rows(spec_)) continue;  // some of it came before the part
      blocks.push_back(p.blocks[static_cast<size_t>(end / block_tokens_ - 1)]);
      rows.push_back(static_cast<int32_t>(row + end - p.past - 1));
    }
    row += count;
  }
  if (!rows.empty()) decoding.kept_rows = from_values({std::ssize(rows)}, rows);
  return blocks;
}

void PagedState::save_kept(const std::vector<int32_t>& blocks, const Decoding& decoding) const {
  if (blocks.empty()) return;
  const Tensor block_N = to_device(from_values({std::ssize(blocks)}, blocks), device_);
  for (size_t i = 0; i < saved_.size(); ++i) {
    const LayerState& from = decoding.layers[i];
    if (from.conv_kept) put_back(saved_[i].conv, from.conv_kept, block_N);
    if (from.value_kept) put_back(saved_[i].value, from.value_kept, block_N);
  }
}

Tensor PagedState::forward(std::span<const Part> parts, int64_t least_rows) {
  const NoGrad no_grad;
  std::vector<Part> all(parts.begin(), parts.end());
  int64_t rows = 0;
  for (const Part& p : parts) rows += static_cast<int64_t>(p.tokens.size());
  if (rows < least_rows) {
    const auto missing = static_cast<size_t>(least_rows - rows);
    TEPHRA_ASSERT(missing <= filler_tokens_.size(), "the filler has room for the least rows");
    clear(filler_slot_);
    all.push_back({filler_slot_, filler_blocks_, 0, std::span(filler_tokens_).first(missing)});
  }
  Rows laid = lay_out(all);
  std::vector<int32_t> slots;
  for (const Part& p : all) slots.push_back(static_cast<int32_t>(p.slot));
  const Tensor slot_N = to_device(from_values({std::ssize(slots)}, slots), device_);
  Decoding decoding;
  gather(slot_N, decoding);
  decoding.write_row_N = to_device(laid.write_row_N, device_);
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    const bool same = i > 0 && spec_.layers[i].window == spec_.layers[i - 1].window;
    decoding.ranges.push_back(same ? decoding.ranges.back()
                                   : to_device(windowed(laid, spec_.layers[i].window), device_));
  }
  const std::vector<int32_t> filled = keep_at_block_ends(parts, decoding);
  const Tensor h = model_.forward(laid.ids_N, laid.segments, &decoding);
  save_kept(filled, decoding);
  const auto own = static_cast<int64_t>(parts.size());  // the filler is forgotten
  scatter(slot_N.view({slot_N.numel(), 1}).slice_rows(0, own).view({own}), decoding);
  return h;
}

}  // namespace tephra

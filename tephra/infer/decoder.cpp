// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/decoder.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "tephra/autograd/tape.h"
#include "tephra/base/signals.h"

namespace tephra {
namespace {

// Keys and values of all layers lie in one block: as many small ones each token would meet their
// pages anew, and one that is large gets large pages.
class CacheRows {
 public:
  CacheRows(const StateSpec& spec, int64_t rows, DType dtype, Device device) : rows_(rows) {
    for (const LayerStateSpec& layer : spec.layers) {
      next_ += elements(layer.kv_width) * (layer.values_in_keys ? 1 : 2);
    }
    all_ = Tensor({next_, 1}, dtype, device, Purpose::cache);
    next_ = 0;
  }

  Tensor take(int64_t width) {
    const int64_t begin = next_;
    next_ += elements(width);
    return all_.slice_rows(begin, begin + rows_ * width).view({rows_, width});
  }

 private:
  static constexpr int64_t kAligned = 256;  // elements; as a tensor of its own would lie

  int64_t elements(int64_t width) const { return ceil_div(rows_ * width, kAligned) * kAligned; }

  int64_t rows_, next_ = 0;
  Tensor all_;
};

}  // namespace

Decoder::Decoder(Model& model, int64_t sequences, int64_t capacity)
    : model_(model),
      spec_(model.state_spec()),
      capacity_(capacity),
      lengths_(static_cast<size_t>(sequences), 0) {
  require(sequences >= 1, "decoder: expected at least one sequence, got {}", sequences);
  require(capacity >= 1 && capacity <= model.context_limit(),
          "context: {} tokens do not fit the model, whose limit is {}; shorten the prompt or ask "
          "for fewer new tokens",
          capacity, model.context_limit());
  require(sequences <= std::numeric_limits<int32_t>::max() / capacity,
          "decoder: {} sequences of {} tokens are more cache rows than can be numbered; use fewer",
          sequences, capacity);
  const DType dtype = model.parameters().dtype();
  const Device device = model.parameters().device();
  CacheRows cache(spec_, sequences * capacity, dtype, device);
  for (const LayerStateSpec& layer : spec_.layers) {
    decoding_.layers.push_back(
        {.k = cache.take(layer.kv_width),
         .v = layer.values_in_keys ? Tensor() : cache.take(layer.kv_width),
         .conv =
             zeros({sequences, layer.conv_rows, layer.conv_width}, dtype, device, Purpose::cache),
         .value = zeros({sequences, 1, layer.value_width}, dtype, device, Purpose::cache)});
  }
}

void Decoder::check(std::span<const std::vector<int32_t>> tokens) const {
  require(tokens.size() == lengths_.size(), "decoder: {} sequences, but tokens for {}",
          lengths_.size(), tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    require(lengths_[i] + static_cast<int64_t>(tokens[i].size()) <= capacity_,
            "context: {} tokens and {} more do not fit into {}", lengths_[i], tokens[i].size(),
            capacity_);
    for (size_t t = 0; t < tokens[i].size(); ++t) {
      require(tokens[i][t] >= 0 && tokens[i][t] < model_.tokens().vocab_size,
              "token {} of sequence {}: expected an id in [0, {}), got {}",
              lengths_[i] + static_cast<int64_t>(t), i, model_.tokens().vocab_size, tokens[i][t]);
    }
  }
}

KeyRanges Decoder::ranges(const Segments& segments, int64_t window) const {
  const int64_t n = segments.tokens();
  KeyRanges r{Tensor({n}, DType::i32), Tensor({n}, DType::i32)};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t base = segments.sequence_N.data<int32_t>()[i] * capacity_;
    const int64_t position = segments.position_N.data<int32_t>()[i];
    const int64_t oldest = window > 0 ? std::max<int64_t>(0, position + 1 - window) : 0;
    r.first_N.data<int32_t>()[i] = static_cast<int32_t>(base + oldest);
    r.last_N.data<int32_t>()[i] = static_cast<int32_t>(base + position + 1);
  }
  return r;
}

Tensor Decoder::advance(std::span<const std::vector<int32_t>> tokens) {
  stop_if_interrupted();
  check(tokens);
  const NoGrad no_grad;
  std::vector<int32_t> ids;
  std::vector<int64_t> counts;
  for (const std::vector<int32_t>& t : tokens) {
    ids.insert(ids.end(), t.begin(), t.end());
    counts.push_back(static_cast<int64_t>(t.size()));
  }
  const Segments segments = Segments::continued(counts, lengths_);
  const int64_t n = segments.tokens();

  Decoding next = decoding_;  // handles only; put back when the pass has succeeded
  next.write_row_N = Tensor({n}, DType::i32);
  for (int64_t i = 0; i < n; ++i) {
    next.write_row_N.data<int32_t>()[i] =
        static_cast<int32_t>(segments.sequence_N.data<int32_t>()[i] * capacity_ +
                             segments.position_N.data<int32_t>()[i]);
  }
  const Device device = model_.parameters().device();
  next.write_row_N = to_device(next.write_row_N, device);
  next.ranges.clear();
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    const bool same = i > 0 && spec_.layers[i].window == spec_.layers[i - 1].window;
    next.ranges.push_back(same ? next.ranges.back()
                               : to_device(ranges(segments, spec_.layers[i].window), device));
  }
  const Tensor h = model_.forward(from_values({n}, ids), segments, &next);
  decoding_ = std::move(next);
  for (size_t i = 0; i < lengths_.size(); ++i) lengths_[i] += counts[i];
  return h;
}

Tensor Decoder::advance(const std::vector<int32_t>& tokens) {
  return advance(std::span(&tokens, 1));
}

void Decoder::forget(std::span<const int64_t> sequences) {
  if (sequences.empty()) return;
  for (const int64_t i : sequences) {
    require(i >= 0 && i < this->sequences(), "decoder: expected a sequence in [0, {}), got {}",
            this->sequences(), i);
  }
  line_.clear();
  for (LayerState& layer : decoding_.layers) {
    for (Tensor* fixed : {&layer.conv, &layer.value}) {
      if (fixed->numel() == 0) continue;
      if (!fixed->sole_owner()) *fixed = clone(*fixed);  // a snapshot keeps what it saw
      const int64_t rows = fixed->rows() / this->sequences();
      for (const int64_t i : sequences) fill(fixed->slice_rows(i * rows, (i + 1) * rows), 0);
    }
  }
  for (const int64_t i : sequences) lengths_[static_cast<size_t>(i)] = 0;
}

Decoder::Snapshot Decoder::snapshot() {
  static std::atomic<uint64_t> next_id{1};
  Snapshot s{.id = next_id++, .lengths = lengths_, .fixed = {}};
  for (const LayerState& layer : decoding_.layers) s.fixed.emplace_back(layer.conv, layer.value);
  line_.push_back(s.id);
  return s;
}

void Decoder::restore(const Snapshot& snapshot) {
  const auto at = std::find(line_.begin(), line_.end(), snapshot.id);
  require(at != line_.end(),
          "decoder: the snapshot does not lie on the present line of this decoder; expected one of "
          "its own that no rollback has forgotten");
  line_.erase(at + 1, line_.end());
  lengths_ = snapshot.lengths;
  for (size_t i = 0; i < decoding_.layers.size(); ++i) {
    decoding_.layers[i].conv = snapshot.fixed[i].first;
    decoding_.layers[i].value = snapshot.fixed[i].second;
  }
}

}  // namespace tephra

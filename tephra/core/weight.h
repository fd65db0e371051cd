// SPDX-License-Identifier: Apache-2.0
// What a linear layer multiplies by: a tensor, or a packed weight that only kernels read. Layers
// hold a Weight and need not know which; a tensor converts to one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tephra/core/rng.h"
#include "tephra/device/cpu/packed.h"

namespace tephra {

std::string to_text(PackedFormat format);  // "q8", "q4"

// A quantised matrix, or [E, rows, cols]: E matrices. Read-only, for inference.
class PackedWeight {
 public:
  // `blocks` is u8 of packed_shape(format, shape), dense; it may be a view of a mapped file, or lie
  // on a GPU.
  PackedWeight(PackedFormat format, const Shape& shape, Tensor blocks);

  PackedFormat format() const { return format_; }
  const Shape& shape() const { return shape_; }
  const Tensor& blocks() const { return blocks_; }
  // Matrix e of E.
  cpu::PackedMatrix matrix(int64_t e = 0) const;
  int64_t matrices() const { return shape_.ndim() == 3 ? shape_[0] : 1; }

 private:
  PackedFormat format_;
  Shape shape_;
  Tensor blocks_;
};

// The bytes of a packed [rows, cols] or [E, rows, cols] as a tensor: [E,] panels, bytes of a panel.
Shape packed_shape(PackedFormat format, const Shape& shape);

// Quantises a tensor of f32, bf16 or f16; `search`: see cpu::pack.
PackedWeight pack_weight(const Tensor& value, PackedFormat format, bool search);
// The way back, into a tensor of the same shape in f32 or bf16 on the same device.
void unpack_weight(const PackedWeight& weight, const Tensor& to);
// Rows [first, first + to.rows()) of a weight with two axes; `first` begins a panel.
void unpack_rows(const PackedWeight& weight, int64_t first, const Tensor& to);
// Codes drawn evenly, with scales of either sign (the codes of q4 have a mean, which would make all
// tokens alike) that give the weights this standard deviation: for measuring. A value depends on
// the key and its place alone, on every device.
void draw_packed(const PackedWeight& weight, const RngKey& key, double std);

class Weight {
 public:
  Weight() = default;
  Weight(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT: a tensor is a weight
  explicit Weight(PackedWeight packed)
      : packed_(std::make_shared<const PackedWeight>(std::move(packed))) {}

  bool defined() const { return packed_ != nullptr || tensor_.defined(); }
  explicit operator bool() const { return defined(); }
  bool is_packed() const { return packed_ != nullptr; }
  const PackedWeight& packed() const;
  // Fault::usage when it is packed: what asks for a tensor cannot run with quantised weights.
  const Tensor& tensor() const;
  const Shape& shape() const { return packed_ ? packed_->shape() : tensor_.shape(); }
  // Of the memory that a product with all of it reads.
  int64_t bytes() const { return packed_ ? packed_->blocks().bytes() : tensor_.bytes(); }

 private:
  Tensor tensor_;
  std::shared_ptr<const PackedWeight> packed_;
};

using Weights = std::vector<Weight>;
using NamedWeights = std::unordered_map<std::string, Weight>;

// Whether all are packed. Some packed and some not is Fault::usage: they are one product.
bool all_packed(const Weights& weights);
Tensors tensors_of(const Weights& weights);

namespace kernel {

// to = the weight, from row `first` on.
struct Unpack {
  const PackedWeight& weight;
  const Tensor& to;
  int64_t first = 0;
  Tensor offsets =
      {};  // i32 [E + 1]: matrices that have no rows by it are left out; undefined: none

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct DrawPacked {
  const PackedWeight& weight;
  RngKey key;
  bf16 scale;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// Sixteen bytes of a matrix's blocks: scales, or codes; `unit` counts them.
struct DrawnUnit {
  uint32_t at[4];
};
constexpr DrawnUnit drawn_unit(const cpu::PackedLayout& layout, const RngKey& key, bf16 scale,
                               uint64_t unit) {
  const std::array<uint32_t, 4> drawn = philox(key, unit);
  DrawnUnit u{{drawn[0], drawn[1], drawn[2], drawn[3]}};
  const auto panel_bytes = static_cast<uint64_t>(layout.panel_bytes());
  const uint64_t panel = unit * 16 / panel_bytes, within = unit * 16 % panel_bytes;
  const auto row_of_panel =
      static_cast<int64_t>(panel % static_cast<uint64_t>(layout.panels())) * cpu::kPanelRows;
  if (within < static_cast<uint64_t>(layout.scale_bytes())) {
    for (uint32_t i = 0; i < 8; ++i) {  // none beyond the matrix
      const auto row = row_of_panel + static_cast<int64_t>(within / 2 + i) % cpu::kPanelRows;
      const uint32_t sign = drawn[i / 2] >> (i % 2 * 16) & 0x8000u;
      const uint32_t bits = row < layout.rows ? scale.bits ^ sign : 0;
      u.at[i / 2] = i % 2 == 0 ? bits : u.at[i / 2] | bits << 16;
    }
  } else if (layout.format == PackedFormat::q8) {
    for (uint32_t& word : u.at) {  // 0 is no code
      for (uint32_t shift = 0; shift < 32; shift += 8) {
        if ((word >> shift & 255u) == 0) word |= 1u << shift;
      }
    }
  }
  return u;
}

}  // namespace kernel

}  // namespace tephra

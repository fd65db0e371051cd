// SPDX-License-Identifier: Apache-2.0
// What a linear layer multiplies by: a tensor, or a packed weight that only kernels read. Layers
// hold a Weight and need not know which; a tensor converts to one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tephra/core/tensor.h"
#include "tephra/device/cpu/packed.h"

namespace tephra {

std::string to_text(PackedFormat format);  // "q8", "q4"

// A quantised matrix, or [E, rows, cols]: E matrices. Read-only, for inference.
class PackedWeight {
 public:
  // `blocks` is u8 of packed_shape(format, shape), dense; it may be a view of a mapped file.
  PackedWeight(PackedFormat format, const Shape& shape, Tensor blocks);

  PackedFormat format() const { return format_; }
  const Shape& shape() const { return shape_; }
  const Tensor& blocks() const { return blocks_; }
  // Matrix e of E.
  cpu::PackedMatrix matrix(int64_t e = 0) const;

 private:
  PackedFormat format_;
  Shape shape_;
  Tensor blocks_;
};

// The bytes of a packed [rows, cols] or [E, rows, cols] as a tensor: [E,] panels, bytes of a panel.
Shape packed_shape(PackedFormat format, const Shape& shape);

// Quantises a tensor of f32, bf16 or f16; `search`: see cpu::pack.
PackedWeight pack_weight(const Tensor& value, PackedFormat format, bool search);
// The way back, into a tensor of the same shape in f32 or bf16.
void unpack_weight(const PackedWeight& weight, const Tensor& to);

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

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/weight.h"

#include <cmath>
#include <cstring>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/packed_kernels.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

cpu::PackedLayout layout_of(PackedFormat format, const Shape& shape) {
  require(shape.ndim() == 2 || shape.ndim() == 3,
          "a packed weight is [rows, cols] or [E, rows, cols], got {}", shape);
  return {format, shape[shape.ndim() - 2], shape[shape.ndim() - 1]};
}

}  // namespace

std::string to_text(PackedFormat format) { return format == PackedFormat::q8 ? "q8" : "q4"; }

PackedWeight::PackedWeight(PackedFormat format, const Shape& shape, Tensor blocks)
    : format_(format), shape_(shape), blocks_(std::move(blocks)) {
  require(blocks_.dtype() == DType::u8 && blocks_.dense() &&
              blocks_.shape() == packed_shape(format, shape),
          "a {} weight {} takes bytes {}, got {} {}", to_text(format), shape,
          packed_shape(format, shape), blocks_.dtype(), blocks_.shape());
}

cpu::PackedMatrix PackedWeight::matrix(int64_t e) const {
  TEPHRA_ASSERT(e >= 0 && e < matrices(), "a matrix of the weight");
  const cpu::PackedLayout layout = layout_of(format_, shape_);
  return {layout, static_cast<const std::byte*>(blocks_.raw()) + e * layout.bytes()};
}

Shape packed_shape(PackedFormat format, const Shape& shape) {
  const cpu::PackedLayout layout = layout_of(format, shape);
  if (shape.ndim() == 3) return {shape[0], layout.panels(), layout.panel_bytes()};
  return {layout.panels(), layout.panel_bytes()};
}

PackedWeight pack_weight(const Tensor& value, PackedFormat format, bool search) {
  const cpu::PackedLayout layout = layout_of(format, value.shape());
  Tensor blocks(packed_shape(format, value.shape()), DType::u8, kCpu, Purpose::weights);
  for (int64_t e = 0; e < (value.ndim() == 3 ? value.dim(0) : 1); ++e) {
    const Tensor part = value.slice_rows(e * layout.rows, (e + 1) * layout.rows);
    const Tensor wide = part.dtype() == DType::f32 && part.dense()
                            ? part
                            : to_dtype(part.dense() ? part : clone(part), DType::f32);
    cpu::pack(layout, wide.data<float>(), search,
              static_cast<std::byte*>(blocks.raw()) + e * layout.bytes());
  }
  return {format, value.shape(), blocks};
}

void kernel::Unpack::on_cpu() const {
  const int64_t rows = weight.matrix().layout.rows, cols = to.cols();
  visit_float(to.dtype(), [&]<class T>() {
    parallel_for(to.rows(), row_grain(cols), [&](int64_t begin, int64_t end) {
      std::vector<float> row(static_cast<size_t>(cols));
      for (int64_t r = begin; r < end; ++r) {
        cpu::unpack_row(weight.matrix((first + r) / rows), (first + r) % rows, row.data());
        T* out = to.row<T>(r);
        for (int64_t c = 0; c < cols; ++c) out[c] = static_cast<T>(row[static_cast<size_t>(c)]);
      }
    });
  });
}

void unpack_weight(const PackedWeight& weight, const Tensor& to) {
  require(to.shape() == weight.shape(), "unpack_weight: expected {}, got {}", weight.shape(),
          to.shape());
  launch(to.device(), "unpack_weight", kernel::Unpack{weight, to});
}

void unpack_rows(const PackedWeight& weight, int64_t first, const Tensor& to) {
  const Shape& shape = weight.shape();
  require(shape.ndim() == 2 && to.ndim() == 2 && to.cols() == shape[1] && first >= 0 &&
              first % cpu::kPanelRows == 0 && first + to.rows() <= shape[0],
          "unpack_rows: expected rows of {} from a multiple of {} on, got {} from {} on", shape,
          cpu::kPanelRows, to.shape(), first);
  launch(to.device(), "unpack_rows", kernel::Unpack{weight, to, first});
}

void kernel::DrawPacked::on_cpu() const {
  const cpu::PackedLayout layout = weight.matrix().layout;
  auto* blocks = static_cast<std::byte*>(weight.blocks().raw());
  parallel_for(weight.blocks().bytes() / 16, 1 << 12, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const DrawnUnit unit = drawn_unit(layout, key, scale, static_cast<uint64_t>(i));
      std::memcpy(blocks + i * 16, unit.at, sizeof unit.at);
    }
  });
}

void draw_packed(const PackedWeight& weight, const RngKey& key, double std) {
  double squares = 0, count = 0;  // of codes
  const auto add = [&](int code) {
    const int value = code - static_cast<int>(cpu::kCodeZero);
    squares += value * value;
    ++count;
  };
  if (weight.format() == PackedFormat::q8) {
    for (int code = 1; code < 256; ++code) add(code);
  } else {
    for (const uint8_t code : cpu::kCodes4) add(code);
  }
  launch(weight.blocks().device(), "draw_packed",
         kernel::DrawPacked{weight, key, bf16(std / std::sqrt(squares / count))});
}

const PackedWeight& Weight::packed() const {
  TEPHRA_ASSERT(packed_ != nullptr, "only a packed weight has blocks");
  return *packed_;
}

const Tensor& Weight::tensor() const {
  require(packed_ == nullptr,
          "a quantised weight {} was asked for as a tensor; expected a model that is not quantised",
          shape());
  return tensor_;
}

bool all_packed(const Weights& weights) {
  size_t count = 0;
  for (const Weight& w : weights) count += w.is_packed() ? 1 : 0;
  require(count == 0 || count == weights.size(),
          "of {} weights that are one product {} are quantised; expected all of them, or none",
          weights.size(), count);
  return count > 0;
}

Tensors tensors_of(const Weights& weights) {
  Tensors tensors;
  for (const Weight& w : weights) tensors.push_back(w.tensor());
  return tensors;
}

}  // namespace tephra

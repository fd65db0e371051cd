// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/value_shift.h"

#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"
#include "tephra/ops/segment_spec.h"

namespace tephra {
namespace {

Tensor left_of(const Tensors& in) { return in.size() > 1 ? in[1] : Tensor(); }

Tensors naive(const Tensor& v, const Tensor& left, const Segments& segments) {
  const int64_t width = v.cols(), half = width / 2;
  Tensor out = empty_like(v);
  for (int64_t b = 0; b < segments.count; ++b) {
    const int64_t start = segments.bounds.data<int32_t>()[b];
    for (int64_t p = 0; p < length_of(segments, b); ++p) {
      for (int64_t c = 0; c < half; ++c) {
        const double before = left ? left.at(b * half + c) : 0;
        const int64_t row = (start + p) * width;
        out.set(row + c, v.at(row + c));
        out.set(row + half + c, p > 0 ? v.at(row - width + half + c) : before);
      }
    }
  }
  return {out};
}

OpCase shift_case(const Packing& packing, int64_t half, const std::vector<int64_t>& left_shape) {
  const Segments segments = Segments::packed(packing.lengths);
  OpCase c;
  c.name = format("{}: halves of {}{}", packing.name, half,
                  left_shape.empty() ? "" : ", with a left state");
  c.inputs = {{.shape = {total(packing), 2 * half}}};
  if (!left_shape.empty()) c.inputs.push_back({.shape = Shape(left_shape)});
  c.run = [=](const Tensors& in) -> Tensors { return {value_shift(in[0], segments, left_of(in))}; };
  c.naive = [=](const Tensors& in) { return naive(in[0], left_of(in), segments); };
  return c;
}

OpCase strided_case() {
  const Segments segments = Segments::packed(std::vector<int64_t>{5, 1, 12});
  OpCase c;
  c.name = "blocks of columns";
  c.inputs = {{.shape = {18, 20}}, {.shape = {3, 9}}};
  c.run = [=](const Tensors& in) -> Tensors {
    return {value_shift(slice_columns(in[0], 3, 11), segments, slice_columns(in[1], 2, 6))};
  };
  c.naive = [=](const Tensors& in) {
    return naive(clone(in[0].column_view(3, 11)), clone(in[1].column_view(2, 6)), segments);
  };
  return c;
}

}  // namespace

OpSpec value_shift_spec() {
  constexpr int64_t kN = 65536, kC = 256;
  constexpr double kBytes = double(kN) * kC * 4;
  const Segments segments = Segments::batch(32, kN / 32);
  OpSpec spec;
  spec.name = "value_shift";
  for (const Packing& packing : packings()) {
    const int64_t count = static_cast<int64_t>(packing.lengths.size());
    spec.cases.push_back(shift_case(packing, 5, {count, 5}));
    spec.cases.push_back(shift_case(packing, 3, {}));
  }
  spec.cases.push_back(shift_case({"a state from tail_state", {6, 1, 3}}, 7, {3, 1, 7}));
  spec.cases.push_back(shift_case({"eights of columns", {6, 1, 30}}, 16, {3, 16}));
  spec.cases.push_back(strided_case());
  spec.benches = {{.name = "65536 x 256",
                   .inputs = {{.shape = {kN, kC}}},
                   .run = [=](const Tensors& in) -> Tensors {
                     return {value_shift(in[0], segments, Tensor())};
                   },
                   .forward_read_bytes = kBytes,
                   .forward_write_bytes = kBytes,
                   .backward_read_bytes = kBytes,
                   .backward_write_bytes = kBytes}};
  return spec;
}

}  // namespace tephra

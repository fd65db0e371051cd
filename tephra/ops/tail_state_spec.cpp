// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/tail_state.h"

#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"
#include "tephra/ops/segment_spec.h"

namespace tephra {
namespace {

Tensor left_of(const Tensors& in) { return in.size() > 1 ? in[1] : Tensor(); }

Tensors naive(const Tensor& z, const Tensor& left, const Segments& segments, int64_t rows) {
  const int64_t width = z.cols();
  Tensor tail({segments.count, rows, width}, z.dtype());
  for (int64_t b = 0; b < segments.count; ++b) {
    for (int64_t j = 0; j < rows; ++j) {
      for (int64_t c = 0; c < width; ++c) {
        const int64_t position = length_of(segments, b) - rows + j;
        tail.set((b * rows + j) * width + c, element(segments, z, left, b, position, c));
      }
    }
  }
  return {tail};
}

OpCase tail_case(const Packing& packing, int64_t width, int64_t rows, bool with_left) {
  const Segments segments = Segments::packed(packing.lengths);
  OpCase c;
  c.name = format("{}: {} rows of {}{}", packing.name, rows, width,
                  with_left ? ", with a left state" : "");
  c.inputs = {{.shape = {total(packing), width}}};
  if (with_left) c.inputs.push_back({.shape = {segments.count, rows, width}});
  c.run = [=](const Tensors& in) -> Tensors {
    return {tail_state(in[0], segments, left_of(in), rows)};
  };
  c.naive = [=](const Tensors& in) { return naive(in[0], left_of(in), segments, rows); };
  return c;
}

OpCase strided_case() {
  const Segments segments = Segments::packed(std::vector<int64_t>{5, 1, 12});
  OpCase c;
  c.name = "a block of columns";
  c.inputs = {{.shape = {18, 20}}};
  c.run = [=](const Tensors& in) -> Tensors {
    return {tail_state(slice_columns(in[0], 10, 20), segments, Tensor(), 2)};
  };
  c.naive = [=](const Tensors& in) {
    return naive(clone(in[0].column_view(10, 20)), Tensor(), segments, 2);
  };
  return c;
}

}  // namespace

OpSpec tail_state_spec() {
  constexpr int64_t kB = 4096, kC = 1280;
  constexpr double kBytes = 2.0 * kB * kC * 4;
  const Segments segments = Segments::batch(kB, 4);
  OpSpec spec;
  spec.name = "tail_state";
  for (const Packing& packing : packings()) {
    spec.cases.push_back(tail_case(packing, 5, 2, true));
    spec.cases.push_back(tail_case(packing, 3, 1, false));
  }
  spec.cases.push_back(tail_case({"several documents", {6, 1, 3}}, 7, 4, true));
  spec.cases.push_back(tail_case({"several documents", {6, 1, 3}}, 7, 0, true));
  spec.cases.push_back(strided_case());
  spec.benches = {{.name = "4096 x 2 rows of 1280",
                   .inputs = {{.shape = {segments.tokens(), kC}}},
                   .run = [=](const Tensors& in) -> Tensors {
                     return {tail_state(in[0], segments, Tensor(), 2)};
                   },
                   .forward_read_bytes = kBytes,
                   .forward_write_bytes = kBytes,
                   .backward_read_bytes = kBytes,
                   .backward_write_bytes = 2 * kBytes}};
  return spec;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tephra/ops/op_spec.h"
#include "tephra/ops/rope.h"

namespace tephra {
namespace {

// Positions of documents of `length` tokens from `first`.
Tensor positions(int64_t rows, int64_t length, int64_t first = 0) {
  Tensor t({rows}, DType::i32);
  for (int64_t r = 0; r < rows; ++r) t.set(r, static_cast<double>(first + r % length));
  return t;
}

using Heads = RopeForm;

Heads heads(int64_t head_dim, int64_t rotary_dim, double theta = 10000) {
  return {head_dim, rotary_dim, theta};
}

Heads interleaved(int64_t head_dim, int64_t rotary_dim, int64_t first) {
  return {head_dim, rotary_dim, 10000, first, true};
}

Tensors naive(const Tensors& in, const Heads& h) {
  const Tensor& x = in[0];
  Tensor y(x.shape(), DType::f64);
  const int64_t half = h.rotary_dim / 2;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t c = i % x.cols() % h.head_dim - h.first;
    if (c < 0 || c >= h.rotary_dim) {
      y.set(i, x.at(i));
      continue;
    }
    const int64_t pair = h.interleaved ? c / 2 : c % half, apart = h.interleaved ? 1 : half;
    const bool is_first = h.interleaved ? c % 2 == 0 : c < half;
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(h.rotary_dim);
    const double angle = in[1].at(i / x.cols()) * std::pow(h.theta, exponent);
    const double other = is_first ? -x.at(i + apart) : x.at(i - apart);
    y.set(i, x.at(i) * std::cos(angle) + other * std::sin(angle));
  }
  return {y};
}

OpCase rope_case(const std::string& name, int64_t num_heads, const Heads& h,
                 const Tensor& position) {
  return {
      .name = name,
      .inputs = {{.shape = {position.numel(), num_heads * h.head_dim}}, InputSpec::index(position)},
      .run = [h](const Tensors& in) -> Tensors { return {rope(in[0], in[1], h)}; },
      .naive = [h](const Tensors& in) { return naive(in, h); }};
}

// In float32 an angle near 300000 is rounded to a multiple of 1/32; the naive loop's is not.
OpCase far_case() {
  OpCase c = rope_case("positions beyond the table", 2, heads(8, 4), positions(5, 5, 300000));
  c.looseness = 5000;
  return c;
}

OpCase strided_case() {
  const Heads h = heads(10, 6);
  OpCase c = rope_case("columns of a wider tensor", 3, h, positions(7, 4));
  c.inputs[0].shape = {7, 37};
  c.run = [h](const Tensors& in) -> Tensors {
    return {rope(slice_columns(in[0], 4, 34), in[1], h)};
  };
  c.naive = [h](const Tensors& in) { return naive({in[0].column_view(4, 34), in[1]}, h); };
  return c;
}

OpBench bench(const std::string& name, const Heads& h) {
  constexpr int64_t kN = 32768, kHeads = 10;
  const double bytes = double(kN) * kHeads * double(h.head_dim) * 4;
  const OpCase c = rope_case("", kHeads, h, positions(kN, 4096));
  return {.name = name,
          .inputs = c.inputs,
          .run = c.run,
          .forward_read_bytes = bytes,
          .forward_write_bytes = bytes,
          .backward_read_bytes = bytes,
          .backward_write_bytes = bytes};
}

}  // namespace

OpSpec rope_spec() {
  return {
      .name = "rope",
      .cases = {rope_case("one row", 1, heads(8, 8), positions(1, 1, 3)),
                rope_case("half of each head, several pieces of rows", 4, heads(64, 32, 5e6),
                          positions(300, 70)),
                rope_case("all of an odd number of pairs", 3, heads(22, 22), positions(9, 5)),
                rope_case("one pair", 2, heads(5, 2), positions(6, 6)),
                rope_case("nothing rotated", 2, heads(7, 0), positions(6, 6)),
                rope_case("no rows", 2, heads(8, 4), positions(0, 1)), far_case(), strided_case(),
                rope_case("the middle of each head", 3, {11, 6, 10000, 3}, positions(9, 5)),
                rope_case("neighbours at the end of each head", 4, interleaved(12, 4, 8),
                          positions(300, 70)),
                rope_case("neighbours, the whole head", 1, interleaved(22, 22, 0),
                          positions(7, 7))},
      .benches = {bench("32768 x 10 heads of 128", heads(128, 64, 5e6)),
                  bench("32768 x 10 heads of 128 + 64, neighbours", interleaved(192, 64, 128))},
  };
}

}  // namespace tephra

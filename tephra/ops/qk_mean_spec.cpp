// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/op_spec.h"
#include "tephra/ops/qk_mean.h"

namespace tephra {
namespace {

struct Heads {
  int64_t nq, nk, dim;

  int64_t width() const { return (nq + nk) * dim; }
};

Tensors naive(const Tensors& in, const Heads& h) {
  const Tensor &z = in[0], &y = in[1];
  Tensor out(z.shape(), DType::f64);
  const int64_t group = h.nq / h.nk;
  for (int64_t r = 0; r < z.rows(); ++r) {
    const auto index = [&](int64_t head, int64_t c) { return r * h.width() + head * h.dim + c; };
    for (int64_t j = 0; j < h.nk; ++j) {
      for (int64_t c = 0; c < h.dim; ++c) {
        const int64_t key = index(h.nq + j, c);
        double mean_query = 0;
        for (int64_t q = j * group; q < (j + 1) * group; ++q) {
          const int64_t query = index(q, c);
          mean_query += z.at(query) / static_cast<double>(group);
          out.set(query, y.at(query) + (z.at(query) + z.at(key)) / 2);
        }
        out.set(key, y.at(key) + (mean_query + z.at(key)) / 2);
      }
    }
  }
  return {out};
}

OpCase qk_mean_case(const std::string& name, int64_t rows, const Heads& h) {
  return {.name = name,
          .inputs = {{.shape = {rows, h.width()}}, {.shape = {rows, h.width()}}},
          .run = [h](const Tensors& in) -> Tensors { return {qk_mean(in[0], in[1], h.nq, h.nk)}; },
          .naive = [h](const Tensors& in) { return naive(in, h); }};
}

OpCase strided_case() {
  const Heads h{4, 2, 5};
  OpCase c = qk_mean_case("columns of wider tensors", 6, h);
  c.inputs[0].shape = {6, 36};
  c.inputs[1].shape = {6, 33};
  const auto sliced = [](const Tensors& in) -> Tensors {
    return {slice_columns(in[0], 3, 33), slice_columns(in[1], 1, 31)};
  };
  c.run = [=, run = c.run](const Tensors& in) { return run(sliced(in)); };
  c.naive = [=](const Tensors& in) { return naive(sliced(in), h); };
  return c;
}

// Both gradients arrive in the same place.
OpCase same_tensor_case() {
  const Heads h{4, 2, 6};
  OpCase c = qk_mean_case("z is y", 5, h);
  c.inputs.pop_back();
  c.run = [run = c.run](const Tensors& in) { return run({in[0], in[0]}); };
  c.naive = [h](const Tensors& in) { return naive({in[0], in[0]}, h); };
  return c;
}

OpBench bench() {
  constexpr int64_t kN = 32768;
  const Heads h{8, 2, 128};
  const double bytes = double(kN) * static_cast<double>(h.width()) * 4;
  OpCase c = qk_mean_case("", kN, h);
  // The gradient of y is dout itself, handed on, but a leaf would have to copy it.
  c.inputs[1].gradient = false;
  return {.name = "32768 x 8 + 2 heads of 128",
          .inputs = c.inputs,
          .run = c.run,
          .forward_read_bytes = 2 * bytes,
          .forward_write_bytes = bytes,
          .backward_read_bytes = bytes,
          .backward_write_bytes = bytes};
}

}  // namespace

OpSpec qk_mean_spec() {
  return {
      .name = "qk_mean",
      .cases = {qk_mean_case("one row", 1, {4, 2, 8}),
                qk_mean_case("several pieces of rows", 400, {8, 2, 16}),
                qk_mean_case("one key head, an odd size", 5, {3, 1, 37}),
                qk_mean_case("as many key heads as query heads", 5, {3, 3, 19}),
                qk_mean_case("no rows", 0, {4, 2, 8}), strided_case(), same_tensor_case()},
      .benches = {bench()},
  };
}

}  // namespace tephra

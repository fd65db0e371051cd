// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/latent_heads.h"

#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

struct Heads {
  int64_t count, own, shared, value;
};

Tensors naive(const Tensors& in, const Heads& h) {
  const Tensor &x = in[0], &shared = in[1];
  const int64_t rows = x.rows(), key = h.own + h.shared, both = h.own + h.value;
  Tensor k({rows, h.count * key}, DType::f64), v({rows, h.count * h.value}, DType::f64);
  for (int64_t i = 0; i < k.numel(); ++i) {
    const int64_t r = i / k.cols(), head = i % k.cols() / key, c = i % key;
    const int64_t from = r * x.cols() + head * both + c;
    k.set(i, c < h.own ? x.at(from) : shared.at(r * h.shared + c - h.own));
  }
  for (int64_t i = 0; i < v.numel(); ++i) {
    const int64_t r = i / v.cols(), head = i % v.cols() / h.value, c = i % h.value;
    v.set(i, x.at(r * x.cols() + head * both + h.own + c));
  }
  return {k, v};
}

OpCase heads_case(const std::string& name, int64_t rows, const Heads& h) {
  return {.name = name,
          .inputs = {{.shape = {rows, h.count * (h.own + h.value)}}, {.shape = {rows, h.shared}}},
          .run = [h](const Tensors& in) -> Tensors {
            const LatentHeads out = latent_heads(in[0], in[1], h.count, h.own);
            return {out.k, out.v};
          },
          .naive = [h](const Tensors& in) { return naive(in, h); }};
}

OpBench bench() {
  constexpr int64_t kN = 8192;
  const Heads h{16, 128, 64, 128};
  const OpCase c = heads_case("", kN, h);
  const double in = 4.0 * kN * (16 * 256 + 64), out = 4.0 * kN * 16 * (192 + 128);
  return {.name = "8192 x 16 heads of 128 + 64",
          .inputs = c.inputs,
          .run = c.run,
          .forward_read_bytes = in,
          .forward_write_bytes = out,
          .backward_read_bytes = out,
          .backward_write_bytes = in};
}

}  // namespace

OpSpec latent_heads_spec() {
  return {.name = "latent_heads",
          .cases = {heads_case("one row", 1, {4, 8, 4, 6}),
                    heads_case("several pieces of rows", 200, {3, 5, 2, 7}),
                    heads_case("one head", 9, {1, 8, 3, 1}),
                    heads_case("nothing but the shared part", 9, {2, 0, 5, 3}),
                    heads_case("no rows", 0, {2, 4, 2, 4})},
          .benches = {bench()}};
}

}  // namespace tephra

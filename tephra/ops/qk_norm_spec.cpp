// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tephra/ops/op_spec.h"
#include "tephra/ops/qk_norm.h"

namespace tephra {
namespace {

struct Heads {
  int64_t nq, nk, dim;
  Temperature form = Temperature::linear;

  int64_t width() const { return (nq + nk) * dim; }
};

// Without eps: no case but the test of zero heads comes near it.
Tensors naive(const Tensors& in, const Heads& heads) {
  const Tensor& x = in[0];
  Tensor y(x.shape(), DType::f64);
  const auto factor = [&](int64_t j) {
    if (j < 0 || heads.form == Temperature::none) return 1.0;
    return heads.form == Temperature::exp ? std::exp(in[1].at(j)) : in[1].at(j);
  };
  for (int64_t first = 0; first < x.numel(); first += heads.dim) {
    double square = 0;
    for (int64_t i = first; i < first + heads.dim; ++i) square += x.at(i) * x.at(i);
    const int64_t j = first % heads.width() / heads.dim - heads.nq;
    const double scale = std::sqrt(static_cast<double>(heads.dim) / square) * factor(j);
    for (int64_t i = first; i < first + heads.dim; ++i) y.set(i, x.at(i) * scale);
  }
  return {y};
}

OpCase qk_norm_case(const std::string& name, int64_t rows, const Heads& h, double temp_mean = 1,
                    double scale = 1) {
  return {.name = name,
          .inputs = {{.shape = {rows, h.width()}, .scale = scale},
                     InputSpec::parameter({h.nk}, temp_mean, 0.3)},
          .run = [h](const Tensors& in) -> Tensors {
            return {qk_norm(in[0], in.size() > 1 ? in[1] : Tensor(), h.nq, h.nk, h.form)};
          },
          .naive = [h](const Tensors& in) { return naive(in, h); }};
}

OpCase strided_case() {
  const Heads h{4, 2, 5};
  OpCase c = qk_norm_case("columns of a wider tensor", 6, h);
  c.inputs[0].shape = {6, 36};
  c.run = [run = c.run](const Tensors& in) { return run({slice_columns(in[0], 3, 33), in[1]}); };
  c.naive = [h](const Tensors& in) { return naive({in[0].column_view(3, 33), in[1]}, h); };
  return c;
}

OpCase no_temperature_case() {
  OpCase c = qk_norm_case("no temperature", 7, {4, 2, 9, Temperature::none});
  c.inputs.pop_back();
  return c;
}

OpBench bench() {
  constexpr int64_t kN = 32768;
  const Heads h{8, 2, 128};
  const double bytes = double(kN) * static_cast<double>(h.width()) * 4;
  const OpCase c = qk_norm_case("", kN, h);
  return {.name = "32768 x 8 + 2 heads of 128",
          .inputs = c.inputs,
          .run = c.run,
          .forward_read_bytes = bytes,
          .forward_write_bytes = bytes,
          .backward_read_bytes = 2 * bytes,
          .backward_write_bytes = bytes};
}

}  // namespace

OpSpec qk_norm_spec() {
  return {
      .name = "qk_norm",
      .cases = {qk_norm_case("one row", 1, {4, 2, 8}),
                qk_norm_case("several blocks of rows", 2100, {4, 2, 8}),
                qk_norm_case("one key head, an odd size", 5, {3, 1, 37}),
                qk_norm_case("as many key heads as query heads", 5, {3, 3, 19}),
                qk_norm_case("negative temperatures", 5, {2, 2, 16}, -5),
                qk_norm_case("long heads", 3, {2, 1, 64}, 10, 3e4),
                qk_norm_case("no rows", 0, {4, 2, 8}), strided_case(),
                qk_norm_case("exp of the temperature", 40, {4, 2, 12, Temperature::exp}, 0.2),
                no_temperature_case()},
      .benches = {bench()},
  };
}

}  // namespace tephra

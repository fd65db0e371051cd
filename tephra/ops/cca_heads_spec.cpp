// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tephra/ops/cca_heads.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

// One token, head by head, from the definition.
class NaiveRow {
 public:
  NaiveRow(const CcaHeadsForm& form, const Tensors& in, int64_t row)
      : f_(form), in_(in), first_(row * in[0].cols()), position_(in[3].at(row)) {}

  void write(const Tensor& out) const {
    for (int64_t h = 0; h < f_.nq + f_.nk; ++h) {
      double square = 0;
      for (int64_t i = 0; i < dim(); ++i) square += std::pow(merged(h, i), 2);
      const double scale = std::sqrt(static_cast<double>(dim()) / square) * factor(h);
      for (int64_t i = 0; i < dim(); ++i) {
        out.set(first_ + h * dim() + i, turned(h, i) * scale);
      }
    }
  }

 private:
  int64_t dim() const { return f_.rope.head_dim; }
  double z(int64_t h, int64_t i) const { return in_[0].at(first_ + h * dim() + i); }
  double merged(int64_t h, int64_t i) const {
    const int64_t group = f_.nq / f_.nk;
    double mean = 0;
    if (h < f_.nq) {
      mean = z(f_.nq + h / group, i);
    } else {
      for (int64_t k = 0; k < group; ++k) mean += z((h - f_.nq) * group + k, i) / double(group);
    }
    return in_[1].at(first_ + h * dim() + i) + (z(h, i) + mean) / 2;
  }
  double factor(int64_t h) const {
    if (h < f_.nq || f_.temperature == Temperature::none) return 1;
    const double t = in_[2].at(h - f_.nq);
    return f_.temperature == Temperature::exp ? std::exp(t) : t;
  }
  double turned(int64_t h, int64_t i) const {
    const int64_t half = f_.rope.rotary_dim / 2;
    if (i >= 2 * half) return merged(h, i);
    const double exponent = -static_cast<double>(i % half) / static_cast<double>(half);
    const double angle = position_ * std::pow(f_.rope.theta, exponent);
    const double partner = merged(h, i < half ? i + half : i - half);
    return merged(h, i) * std::cos(angle) + (i < half ? -partner : partner) * std::sin(angle);
  }

  const CcaHeadsForm& f_;
  const Tensors& in_;
  int64_t first_;
  double position_;
};

Tensors naive(const Tensors& in, const CcaHeadsForm& form) {
  const Tensor out(in[0].shape(), DType::f64);
  for (int64_t r = 0; r < out.rows(); ++r) NaiveRow(form, in, r).write(out);
  return {out};
}

Tensor positions(int64_t rows) {
  std::vector<int32_t> at;
  for (int64_t r = 0; r < rows; ++r) at.push_back(static_cast<int32_t>(r % 70));
  return from_values({rows}, at);
}

// z and y are columns [begin, begin + width) of tensors that are `more` wider.
OpCase heads_case(const std::string& name, int64_t rows, const CcaHeadsForm& form,
                  int64_t begin = 0, int64_t more = 0) {
  const int64_t width = (form.nq + form.nk) * form.rope.head_dim;
  const InputSpec temp = InputSpec::parameter({form.nk}, 0.8, 0.3);
  const auto part = [=](const Tensor& x) { return slice_columns(x, begin, begin + width); };
  return {.name = name,
          .inputs = {{.shape = {rows, width + more}},
                     {.shape = {rows, width + more}},
                     temp,
                     InputSpec::index(positions(rows))},
          .run = [=](const Tensors& in) -> Tensors {
            return {cca_heads(part(in[0]), part(in[1]), in[2], in[3], form)};
          },
          .naive =
              [=](const Tensors& in) {
                const auto dense = [&](const Tensor& x) {
                  return clone(x.column_view(begin, begin + width));
                };
                return naive({dense(in[0]), dense(in[1]), in[2], in[3]}, form);
              }};
}

CcaHeadsForm form(int64_t nq, int64_t nk, int64_t dim, int64_t rotary,
                  Temperature temperature = Temperature::linear) {
  return {nq, nk, temperature, {dim, rotary, 1e4}};
}

// z and y are read and heads written; backward reads both and the gradient, and writes two.
OpBench bench() {
  constexpr int64_t kN = 32768;
  const CcaHeadsForm f = form(8, 2, 128, 64);
  const double bytes = double(kN) * static_cast<double>((f.nq + f.nk) * f.rope.head_dim) * 4;
  const OpCase c = heads_case("", kN, f);
  return {.name = "32768 x 8 + 2 heads of 128",
          .inputs = c.inputs,
          .run = c.run,
          .forward_read_bytes = 2 * bytes,
          .forward_write_bytes = bytes,
          .backward_read_bytes = 3 * bytes,
          .backward_write_bytes = 2 * bytes};
}

}  // namespace

OpSpec cca_heads_spec() {
  return {.name = "cca_heads",
          .cases = {heads_case("one row", 1, form(4, 2, 8, 4)),
                    heads_case("half of each head turns", 75, form(8, 2, 32, 16)),
                    heads_case("all of each head turns", 33, form(2, 2, 16, 16)),
                    heads_case("heads of a whole wave", 5, form(2, 1, 256, 128)),
                    heads_case("nothing turns", 9, form(4, 1, 16, 0)),
                    heads_case("an odd size", 7, form(3, 1, 11, 6)),
                    heads_case("exp of the temperature", 20, form(4, 2, 16, 8, Temperature::exp)),
                    heads_case("columns of wider tensors", 6, form(4, 2, 16, 8), 8, 24),
                    heads_case("columns that are not aligned", 6, form(4, 2, 16, 8), 3, 5),
                    heads_case("no rows", 0, form(4, 2, 8, 8))},
          .benches = {bench()}};
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// The naive form is the naive forms of its parts, one after another; values are the columns after
// those of the heads.
#include "tephra/ops/cca_qkv.h"

#include <cmath>

#include "tephra/ops/op_spec.h"
#include "tephra/ops/segment_spec.h"

namespace tephra {
namespace {

// Inputs: z, weight0, bias0, weight1, bias1, temp.
class NaiveQkv {
 public:
  NaiveQkv(const Tensors& in, const Segments& segments, const CcaHeadsForm& form)
      : in_(in), segments_(segments), f_(form) {}

  Tensor run() const {
    const Tensor out(in_[0].shape(), DType::f64);
    for (int64_t b = 0; b < segments_.count; ++b) {
      for (int64_t p = 0; p < length_of(segments_, b); ++p) {
        for (int64_t h = 0; h < f_.nq + f_.nk; ++h) write(out, b, p, h);
        write_values(out, b, p);
      }
    }
    return out;
  }

 private:
  int64_t dim() const { return f_.rope.head_dim; }
  double z(int64_t b, int64_t p, int64_t c) const {
    return element(segments_, in_[0], Tensor(), b, p, c);
  }
  // The first convolution, also before the document.
  double first(int64_t b, int64_t p, int64_t c) const {
    const int64_t taps = in_[1].dim(2);
    double sum = in_[2].at(c);
    for (int64_t k = 0; k < taps; ++k) {
      sum += in_[1].at(c * taps + k) * z(b, p - taps + 1 + k, c);
    }
    return sum;
  }
  double second(const std::vector<double>& u, int64_t c) const {
    const int64_t taps = in_[3].dim(2);
    double sum = in_[4].at(c);
    for (int64_t at = 0; at < dim() * taps; ++at) {
      sum += in_[3].at(c * dim() * taps + at) * u[static_cast<size_t>(at)];
    }
    return sum;
  }
  double mean(int64_t b, int64_t p, int64_t h, int64_t i) const {
    const int64_t group = f_.nq / f_.nk;
    double others = 0;
    if (h < f_.nq) {
      others = z(b, p, (f_.nq + h / group) * dim() + i);
    } else {
      for (int64_t k = 0; k < group; ++k) {
        others += z(b, p, ((h - f_.nq) * group + k) * dim() + i) / static_cast<double>(group);
      }
    }
    return (z(b, p, h * dim() + i) + others) / 2;
  }
  double factor(int64_t h) const {
    if (h < f_.nq || f_.temperature == Temperature::none) return 1;
    const double t = in_[5].at(h - f_.nq);
    return f_.temperature == Temperature::exp ? std::exp(t) : t;
  }

  void write(const Tensor& out, int64_t b, int64_t p, int64_t h) const {
    const int64_t taps = in_[3].dim(2), half = f_.rope.rotary_dim / 2;
    std::vector<double> u, v;
    for (int64_t i = 0; i < dim(); ++i) {
      for (int64_t k = 0; k < taps; ++k) u.push_back(first(b, p - taps + 1 + k, h * dim() + i));
    }
    double square = 0;
    for (int64_t i = 0; i < dim(); ++i) {
      v.push_back(second(u, h * dim() + i) + mean(b, p, h, i));
      square += v.back() * v.back();
    }
    const double scale = std::sqrt(static_cast<double>(dim()) / square) * factor(h);
    const int64_t row = segments_.bounds.data<int32_t>()[b] + p;
    for (int64_t i = 0; i < dim(); ++i) {
      double value = v[static_cast<size_t>(i)];
      if (i < 2 * half) {
        const double exponent = -static_cast<double>(i % half) / static_cast<double>(half);
        const double angle = static_cast<double>(p) * std::pow(f_.rope.theta, exponent);
        const double partner = v[static_cast<size_t>(i < half ? i + half : i - half)];
        value = value * std::cos(angle) + (i < half ? -partner : partner) * std::sin(angle);
      }
      out.set(row * out.cols() + h * dim() + i, value * scale);
    }
  }

  void write_values(const Tensor& out, int64_t b, int64_t p) const {
    const int64_t first = f_.channels(), half = (out.cols() - first) / 2;
    const int64_t row = segments_.bounds.data<int32_t>()[b] + p;
    for (int64_t c = first; c < out.cols(); ++c) {
      const int64_t before = c < first + half ? 0 : 1;
      out.set(row * out.cols() + c, z(b, p - before, c));
    }
  }

  const Tensors& in_;
  const Segments& segments_;
  const CcaHeadsForm& f_;
};

struct Taps {
  int64_t first = 2, second = 2;
};

std::vector<InputSpec> inputs(int64_t tokens, const CcaHeadsForm& f, int64_t values, Taps taps) {
  const int64_t dim = f.rope.head_dim, width = f.channels();
  return {
      {.shape = {tokens, width + values}},
      InputSpec::parameter({width, 1, taps.first}, 0.3, 0.5),
      InputSpec::parameter({width}, 0.1, 0.5),
      InputSpec::parameter({width, dim, taps.second}, 0, 1 / std::sqrt(static_cast<double>(dim))),
      InputSpec::parameter({width}, 0, 0.5),
      InputSpec::parameter({f.nk}, 0.8, 0.3)};
}

Tensor run(const Tensors& in, const Segments& segments, const CcaHeadsForm& form) {
  const Tensor temp = form.temperature == Temperature::none ? Tensor() : in[5];
  return cca_qkv(in[0], {in[1], in[2], in[3], in[4]}, temp, segments, form);
}

OpCase qkv_case(const Packing& packing, const CcaHeadsForm& form, int64_t values, Taps taps = {}) {
  const Segments segments = Segments::packed(packing.lengths);
  OpCase c;
  c.name = format("{}: {} + {} heads of {}, {} turn, values of {}", packing.name, form.nq, form.nk,
                  form.rope.head_dim, form.rope.rotary_dim, values);
  c.inputs = inputs(total(packing), form, values, taps);
  if (form.temperature == Temperature::none) c.inputs.pop_back();
  c.run = [=](const Tensors& in) -> Tensors { return {run(in, segments, form)}; };
  c.naive = [=](const Tensors& in) -> Tensors { return {NaiveQkv(in, segments, form).run()}; };
  return c;
}

CcaHeadsForm form(int64_t nq, int64_t nk, int64_t dim, int64_t rotary,
                  Temperature temperature = Temperature::linear) {
  return {nq, nk, temperature, {dim, rotary, 1e4}};
}

// The latents are read and heads written; backward reads both gradients and latents. The second
// convolution is computed again backward.
OpBench bench() {
  constexpr int64_t kN = 16384, kC = 1280, kV = 256, kD = 128;
  const Segments segments = Segments::batch(4, kN / 4);
  const CcaHeadsForm f = form(8, 2, kD, 64);
  constexpr double kFlops = 4.0 * kN * kC * kD, kBytes = 2.0 * kN * (kC + kV);
  return {.name = "16384 x 8 + 2 heads of 128, values of 256",
          .inputs = inputs(kN, f, kV, {}),
          .run = [=](const Tensors& in) -> Tensors { return {run(in, segments, f)}; },
          .forward_flops = kFlops,
          .backward_flops = 3 * kFlops,
          .forward_read_bytes = kBytes,
          .forward_write_bytes = kBytes,
          .backward_read_bytes = 2 * kBytes,
          .backward_write_bytes = kBytes};
}

}  // namespace

OpSpec cca_qkv_spec() {
  OpSpec spec;
  spec.name = "cca_qkv";
  const auto add = [&](const Packing& packing, const CcaHeadsForm& f, int64_t values,
                       Taps taps = {}) {
    spec.cases.push_back(qkv_case(packing, f, values, taps));
  };
  for (const Packing& packing : packings()) add(packing, form(2, 1, 8, 4), 6);
  add({"more taps", {3, 9}}, form(2, 2, 4, 4), 2, {3, 4});
  add({"one tap each", {5}}, form(2, 1, 4, 2), 0, {1, 1});
  // The shapes of the fused kernels: parts of a tile, several tiles and runs of them, tiles that
  // begin or end with a document.
  add({"one token", {1}}, form(2, 1, 128, 64), 128);
  add({"part of a tile", {1, 2, 9}}, form(2, 1, 128, 64), 128);
  add({"tiles", {126, 1, 1, 128, 4}}, form(1, 1, 128, 128), 16);
  add({"documents across tiles", {130, 0, 30}}, form(2, 1, 128, 64, Temperature::exp), 128);
  add({"nothing turns", {70}}, form(1, 1, 128, 0, Temperature::none), 0);
  add({"many queries of a key", {3, 40}}, form(5, 1, 128, 64), 32);
  add({"narrow heads, one token", {1}}, form(2, 2, 64, 32), 128);
  add({"narrow heads", {126, 1, 1, 128, 4}}, form(2, 1, 64, 32), 64);
  add({"narrow heads that turn", {1, 130, 0, 30}}, form(4, 2, 64, 64, Temperature::exp), 0);
  add({"narrow heads that do not", {3, 40}}, form(5, 1, 64, 0, Temperature::none), 48);
  spec.benches = {bench()};
  return spec;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/grouped_conv.h"

#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"
#include "tephra/ops/segment_spec.h"

namespace tephra {
namespace {

// Inputs: u, weight, bias, and left where there is one.
Tensor left_of(const Tensors& in) { return in.size() > 3 ? in[3] : Tensor(); }

Tensors naive(const Tensor& u, const Tensor& weight, const Tensor& bias, const Tensor& left,
              const Segments& segments) {
  const int64_t channels = u.cols(), width = weight.dim(1), taps = weight.dim(2);
  Tensor y = empty_like(u);
  for (int64_t b = 0; b < segments.count; ++b) {
    for (int64_t p = 0; p < length_of(segments, b); ++p) {
      for (int64_t c = 0; c < channels; ++c) {
        double sum = bias.at(c);
        for (int64_t i = 0; i < width; ++i) {
          for (int64_t k = 0; k < taps; ++k) {
            sum += weight.at((c * width + i) * taps + k) *
                   element(segments, u, left, b, p - taps + 1 + k, c / width * width + i);
          }
        }
        y.set((segments.bounds.data<int32_t>()[b] + p) * channels + c, sum);
      }
    }
  }
  return {y};
}

struct Sizes {
  int64_t groups, width, taps;
};

OpCase conv_case(const Packing& packing, Sizes s, bool with_left) {
  const Segments segments = Segments::packed(packing.lengths);
  const int64_t channels = s.groups * s.width;
  OpCase c;
  c.name = format("{}: {} groups of {}, {} taps{}", packing.name, s.groups, s.width, s.taps,
                  with_left ? ", with a left state" : "");
  c.inputs = {{.shape = {total(packing), channels}},
              InputSpec::parameter({channels, s.width, s.taps}),
              InputSpec::parameter({channels})};
  if (with_left) c.inputs.push_back({.shape = {segments.count, s.taps - 1, channels}});
  c.run = [=](const Tensors& in) -> Tensors {
    return {grouped_conv(in[0], in[1], in[2], segments, left_of(in))};
  };
  c.naive = [=](const Tensors& in) { return naive(in[0], in[1], in[2], left_of(in), segments); };
  return c;
}

OpCase strided_case() {
  const Segments segments = Segments::packed(std::vector<int64_t>{5, 1, 12});
  OpCase c;
  c.name = "a block of columns";
  c.inputs = {{.shape = {18, 50}}, InputSpec::parameter({21, 7, 2}), InputSpec::parameter({21})};
  c.run = [=](const Tensors& in) -> Tensors {
    return {grouped_conv(slice_columns(in[0], 9, 30), in[1], in[2], segments, Tensor())};
  };
  c.naive = [=](const Tensors& in) {
    return naive(clone(in[0].column_view(9, 30)), in[1], in[2], Tensor(), segments);
  };
  return c;
}

OpBench bench(const std::string& name, const Segments& segments) {
  constexpr int64_t kC = 1280, kD = 128, kTaps = 2, kHeads = kC / kD;
  const int64_t n = segments.tokens();
  const double flops = 2.0 * static_cast<double>(n * kC * kD * kTaps);
  return {
      .name = name,
      .inputs = {{.shape = {n, kC}},
                 InputSpec::parameter({kC, kD, kTaps}, 0, 0.05),
                 InputSpec::parameter({kC})},
      .run = [=](const Tensors& in) -> Tensors {
        return {grouped_conv(in[0], in[1], in[2], segments, Tensor())};
      },
      .forward_flops = flops,
      .backward_flops = 2 * flops,
      .forward_gemms = {{.m = n, .n = kD, .k = kD * kTaps, .transpose_b = true, .count = kHeads}},
      .backward_gemms = {{.m = n, .n = kD * kTaps, .k = kD, .count = kHeads},
                         {.m = kD, .n = kD * kTaps, .k = n, .transpose_a = true, .count = kHeads}}};
}

}  // namespace

OpSpec grouped_conv_spec() {
  OpSpec spec;
  spec.name = "grouped_conv";
  for (const Packing& packing : packings()) {
    spec.cases.push_back(conv_case(packing, {2, 3, 2}, false));
    spec.cases.push_back(conv_case(packing, {2, 3, 3}, true));
  }
  spec.cases.push_back(conv_case({"several documents", {6, 1, 30}}, {3, 5, 1}, false));
  spec.cases.push_back(conv_case({"several documents", {6, 1, 30}}, {1, 9, 4}, true));
  spec.cases.push_back(conv_case({"more taps than usual", {3, 9, 30}}, {2, 4, 6}, true));
  spec.cases.push_back(conv_case({"heads of sixteen", {6, 1, 30}}, {3, 16, 2}, false));
  spec.cases.push_back(conv_case({"heads of sixteen", {6, 1, 30}}, {3, 16, 2}, true));
  spec.cases.push_back(conv_case({"stretches of tokens", {1000, 24}}, {2, 8, 2}, true));
  spec.cases.push_back(conv_case({"several tiles", {300, 2, 290}}, {2, 8, 3}, true));
  spec.cases.push_back(conv_case({"several blocks of tiles", {1100, 3, 40}}, {2, 2, 2}, false));
  spec.cases.push_back(strided_case());
  spec.benches = {bench("16384 x 1280, heads of 128", Segments::batch(8, 2048)),
                  bench("16384 x 1280 in 1024 documents", Segments::batch(1024, 16)),
                  bench("decode, 8 sequences", Segments::batch(8, 1))};
  return spec;
}

}  // namespace tephra

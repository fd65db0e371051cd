// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/depthwise_conv.h"

#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"
#include "tephra/ops/segment_spec.h"

namespace tephra {
namespace {

// Inputs: z, weight, bias, left (undefined when absent: the op gets a short list).
Tensor left_of(const Tensors& in) { return in.size() > 3 ? in[3] : Tensor(); }

Tensors listed(const ConvOutput& out) {
  return out.lead ? Tensors{out.y, out.lead} : Tensors{out.y};
}

ConvOutput naive(const Tensor& z, const Tensor& weight, const Tensor& bias, const Tensor& left,
                 const Segments& segments, int64_t lead_rows) {
  const int64_t width = z.cols(), taps = weight.dim(2);
  ConvOutput out{empty_like(z), {}};
  if (lead_rows > 0) out.lead = Tensor({segments.count, lead_rows, width}, z.dtype());
  for (int64_t b = 0; b < segments.count; ++b) {
    const int64_t start = segments.bounds.data<int32_t>()[b];
    for (int64_t p = -lead_rows; p < length_of(segments, b); ++p) {
      for (int64_t c = 0; c < width; ++c) {
        double sum = bias.at(c);
        for (int64_t k = 0; k < taps; ++k) {
          sum += weight.at(c * taps + k) * element(segments, z, left, b, p - taps + 1 + k, c);
        }
        if (p >= 0) {
          out.y.set((start + p) * width + c, sum);
        } else {
          out.lead.set((b * lead_rows + lead_rows + p) * width + c, sum);
        }
      }
    }
  }
  return out;
}

struct Sizes {
  int64_t width, taps, lead_rows;
};

OpCase conv_case(const std::string& name, const Packing& packing, Sizes s, bool with_left) {
  const Segments segments = Segments::packed(packing.lengths);
  OpCase c;
  c.name = format("{}: {}, {} taps, {} lead rows{}", packing.name, name, s.taps, s.lead_rows,
                  with_left ? ", with a left state" : "");
  c.inputs = {{.shape = {total(packing), s.width}},
              InputSpec::parameter({s.width, 1, s.taps}),
              InputSpec::parameter({s.width})};
  if (with_left) {
    c.inputs.push_back({.shape = {segments.count, s.taps - 1 + s.lead_rows, s.width}});
  }
  c.run = [=](const Tensors& in) {
    return listed(depthwise_conv(in[0], in[1], in[2], segments, left_of(in), s.lead_rows));
  };
  c.naive = [=](const Tensors& in) {
    return listed(naive(in[0], in[1], in[2], left_of(in), segments, s.lead_rows));
  };
  return c;
}

// z is a block of columns of a wider tensor, as q and k are of one projection.
OpCase strided_case() {
  const Segments segments = Segments::packed(std::vector<int64_t>{5, 1, 12});
  OpCase c;
  c.name = "a block of columns";
  c.inputs = {{.shape = {18, 50}}, InputSpec::parameter({21, 1, 2}), InputSpec::parameter({21})};
  c.run = [=](const Tensors& in) {
    return listed(depthwise_conv(slice_columns(in[0], 9, 30), in[1], in[2], segments, Tensor(), 1));
  };
  c.naive = [=](const Tensors& in) {
    return listed(naive(clone(in[0].column_view(9, 30)), in[1], in[2], Tensor(), segments, 1));
  };
  return c;
}

OpBench bench() {
  constexpr int64_t kN = 16384, kC = 1280;
  constexpr double kBytes = double(kN) * kC * 4;
  const Segments segments = Segments::batch(8, kN / 8);
  return {
      .name = "16384 x 1280, 2 taps",
      .inputs = {{.shape = {kN, kC}}, InputSpec::parameter({kC, 1, 2}), InputSpec::parameter({kC})},
      .run =
          [=](const Tensors& in) {
            return listed(depthwise_conv(in[0], in[1], in[2], segments, Tensor(), 1));
          },
      .forward_read_bytes = kBytes,
      .forward_write_bytes = kBytes,
      .backward_read_bytes = 2 * kBytes,
      .backward_write_bytes = kBytes};
}

}  // namespace

OpSpec depthwise_conv_spec() {
  OpSpec spec;
  spec.name = "depthwise_conv";
  for (const Packing& packing : packings()) {
    spec.cases.push_back(conv_case("narrow", packing, {5, 3, 2}, true));
    spec.cases.push_back(conv_case("narrow", packing, {5, 2, 1}, false));
  }
  const Packing some = {"several documents", {6, 1, 30}};
  spec.cases.push_back(conv_case("one tap", some, {35, 1, 0}, false));
  spec.cases.push_back(conv_case("one tap", some, {35, 1, 2}, true));
  spec.cases.push_back(conv_case("four taps", some, {67, 4, 0}, true));
  spec.cases.push_back(conv_case("four taps", some, {67, 4, 3}, false));
  spec.cases.push_back(conv_case("eights of channels", some, {40, 2, 1}, false));
  spec.cases.push_back(conv_case("eights of channels", some, {40, 2, 1}, true));
  spec.cases.push_back(conv_case("eights of channels", {"long", {5000, 3}}, {16, 2, 1}, false));
  spec.cases.push_back(strided_case());
  spec.benches = {bench()};
  return spec;
}

}  // namespace tephra

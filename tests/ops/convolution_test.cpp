// SPDX-License-Identifier: Apache-2.0
// What the op suite cannot say about the convolutions and the value shift: continuing a document
// from its state is the same as never having stopped, and wrong use is told.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tephra/core/rng.h"
#include "tephra/ops/cca_qkv.h"
#include "tephra/ops/depthwise_conv.h"
#include "tephra/ops/grouped_conv.h"
#include "tephra/ops/tail_state.h"
#include "tephra/ops/value_shift.h"
#include "tests/support/message_of.h"

namespace tephra::convolution_test {  // a name of its own: test files are compiled together
namespace {

constexpr int64_t kTokens = 11, kWidth = 6, kTaps0 = 2, kTaps1 = 3;
constexpr int64_t kKept = kTaps0 - 1 + kTaps1 - 1;  // rows of state that both convolutions need

Tensor random_tensor(const Shape& shape, uint32_t stream) {
  Tensor t(shape, DType::f64);
  fill_normal(t, {11, stream, 0}, 0, 1);
  return t;
}

Segments one_segment(int64_t tokens) { return Segments::packed(std::vector<int64_t>{tokens}); }

struct Weights {
  Tensor w0 = random_tensor({kWidth, 1, kTaps0}, 1), b0 = random_tensor({kWidth}, 2);
  Tensor w1 = random_tensor({kWidth, 3, kTaps1}, 3), b1 = random_tensor({kWidth}, 4);
};

Tensor both_convolutions(const Weights& w, const Tensor& z, const Tensor& left) {
  const Segments segments = one_segment(z.rows());
  const ConvOutput u = depthwise_conv(z, w.w0, w.b0, segments, left, kTaps1 - 1);
  return grouped_conv(u.y, w.w1, w.b1, segments, u.lead);
}

TEST(Convolutions, ContinueADocumentFromItsState) {
  const Weights w;
  const Tensor z = random_tensor({kTokens, kWidth}, 5);
  const Tensor whole = both_convolutions(w, z, {});
  // Pieces of 1 token, of fewer tokens than the state has rows, of none, and of more.
  Tensor left;
  int64_t at = 0;
  for (const int64_t length : {1, 2, 0, 1, 5, 2}) {
    const Tensor piece = z.slice_rows(at, at + length);
    const Tensor y = both_convolutions(w, piece, left);
    for (int64_t i = 0; i < y.numel(); ++i) {
      ASSERT_NEAR(y.at(i), whole.at(at * kWidth + i), 1e-13) << "piece at row " << at;
    }
    left = tail_state(piece, one_segment(length), left, kKept);
    at += length;
  }
  EXPECT_EQ(at, kTokens);
}

TEST(Convolutions, GiveTheSecondOneTheBiasBeforeAFirstToken) {
  const Weights w;
  const ConvOutput u = depthwise_conv(random_tensor({4, kWidth}, 6), w.w0, w.b0,
                                      Segments::packed(std::vector<int64_t>{3, 0, 1}), {}, 2);
  ASSERT_EQ(u.lead.shape(), (Shape{3, 2, kWidth}));
  for (int64_t i = 0; i < u.lead.numel(); ++i) EXPECT_EQ(u.lead.at(i), w.b0.at(i % kWidth));
}

// The same document alone, among others, and in a longer batch, within one class of row counts.
TEST(Convolutions, GiveATokenTheSameBitsWhateverSurroundsIt) {
  const int64_t width = 160, length = 5;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor document = to_dtype(random_tensor({length, width}, 7), dtype);
    const Tensor w0 = to_dtype(random_tensor({width, 1, 2}, 8), dtype);
    const Tensor w1 = to_dtype(random_tensor({width, 80, 2}, 9), dtype);
    const Tensor bias = to_dtype(random_tensor({width}, 10), dtype);
    const auto among = [&](int64_t before, int64_t after) {
      const int64_t tokens = before + length + after;
      const Segments segments = Segments::packed(std::vector<int64_t>{before, length, after});
      const Tensor z = to_dtype(random_tensor({tokens, width}, 11), dtype);
      copy_into(z.slice_rows(before, before + length), document);
      const ConvOutput u = depthwise_conv(z, w0, bias, segments, {}, 1);
      const Tensor y = grouped_conv(u.y, w1, bias, segments, u.lead);
      return clone(y.slice_rows(before, before + length));
    };
    EXPECT_TRUE(same_bits(among(0, 0), among(3, 4))) << to_text(dtype);
    EXPECT_TRUE(same_bits(among(11, 0), among(5, 30))) << to_text(dtype);
    EXPECT_TRUE(same_bits(among(11, 0), among(253, 1))) << "across tiles, " << to_text(dtype);
  }
}

// Widths with and without whole vectors, and one beyond the zeros that all rows share.
TEST(Convolutions, BeforeADocumentThereIsNothingHoweverWideItIs) {
  for (const int64_t width : {3, 37, 5000}) {
    Tensor z({1, width}, DType::f32), weight({width, 1, 2}, DType::f32), bias({width}, DType::f32);
    fill_normal(z, {11, 5, 0}, 0, 1);
    fill_normal(weight, {11, 6, 0}, 0, 1);
    fill_normal(bias, {11, 7, 0}, 0, 1);
    const ConvOutput out = depthwise_conv(z, weight, bias, one_segment(1), {}, 1);
    for (int64_t c = 0; c < width; ++c) {
      const float b = bias.data<float>()[c];
      ASSERT_EQ(out.lead.data<float>()[c], b) << width << " " << c;
      ASSERT_EQ(out.y.data<float>()[c],
                std::fma(weight.data<float>()[2 * c + 1], z.data<float>()[c], b))
          << width << " " << c;
    }
  }
}

TEST(Convolutions, SayWhatDoesNotFit) {
  const Tensor z({4, 6}, DType::f32), bias({6}, DType::f32);
  const Segments segments = one_segment(4);
  const auto depthwise = [&](const Tensor& x, const Shape& weight, const Segments& s,
                             const Tensor& left) {
    return message_of([&] { depthwise_conv(x, Tensor(weight, DType::f32), bias, s, left, 1); });
  };
  EXPECT_EQ(depthwise(z, {6, 2}, segments, {}),
            "depthwise_conv: weight must be [6, 1, taps] to match z [4, 6], got [6, 2]");
  EXPECT_EQ(depthwise(z, {6, 1, 2}, one_segment(5), {}),
            "depthwise_conv: z has 4 rows, the segments have 5 tokens");
  EXPECT_EQ(depthwise(z, {6, 1, 2}, segments, Tensor({1, 1, 6}, DType::f32)),
            "depthwise_conv: left must be [1, 2, 6], got [1, 1, 6]");
  EXPECT_EQ(depthwise(z, {6, 1, 2}, segments, Tensor({1, 2, 6}, DType::bf16)),
            "depthwise_conv: left is bf16, expected f32 as the tokens");
  EXPECT_EQ(
      message_of([&] {
        depthwise_conv(z, Tensor({6, 1, 2}, DType::f32), Tensor({5}, DType::f32), segments, {}, 1);
      }),
      "depthwise_conv: bias must be [6] to match z [4, 6], got [5]");
  EXPECT_EQ(message_of([&] {
              depthwise_conv(z, Tensor({6, 1, 2}, DType::bf16), bias, segments, {}, 1);
            }),
            "depthwise_conv: weight is bf16 and bias f32, z is f32");
  EXPECT_EQ(message_of([&] {
              depthwise_conv(z, Tensor({6, 1, 2}, DType::f32), bias, segments, {}, -1);
            }),
            "depthwise_conv: lead_rows cannot be negative, got -1");

  const auto grouped = [&](const Shape& weight, const Shape& b, DType dtype) {
    return message_of(
        [&] { grouped_conv(z, Tensor(weight, dtype), Tensor(b, DType::f32), segments, {}); });
  };
  EXPECT_EQ(grouped({5, 3, 2}, {6}, DType::f32),
            "grouped_conv: weight must be [6, group width, taps] to match u [4, 6], got [5, 3, 2]");
  EXPECT_EQ(grouped({6, 4, 2}, {6}, DType::f32),
            "grouped_conv: 6 channels do not divide into groups of 4");
  EXPECT_EQ(grouped({6, 3, 2}, {7}, DType::f32),
            "grouped_conv: bias must be [6] to match u [4, 6], got [7]");
  EXPECT_EQ(grouped({6, 3, 2}, {6}, DType::f64),
            "grouped_conv: weight is f64 and bias f32, u is f32");
}

TEST(Convolutions, SayWhatDoesNotFitAStateOrAShift) {
  const Tensor z({4, 6}, DType::f32);
  const Segments segments = one_segment(4);
  EXPECT_EQ(message_of([&] { tail_state(z, segments, {}, -2); }),
            "tail_state: rows cannot be negative, got -2");
  EXPECT_EQ(message_of([&] {
              tail_state(z, segments, Tensor({1, 1, 6}, DType::f32), 2);
            }),
            "tail_state: left must be [1, 2, 6], got [1, 1, 6]");
  EXPECT_EQ(message_of([&] {
              value_shift(Tensor({4, 5}, DType::f32), segments, {});
            }),
            "value_shift: v must have an even width, got [4, 5]");
  EXPECT_EQ(message_of([&] {
              value_shift(z, segments, Tensor({2, 3}, DType::f32));
            }),
            "value_shift: left must be [1, 3], got [2, 3]");
  EXPECT_EQ(message_of([&] { value_shift(Tensor({24}, DType::f32), segments, {}); }),
            "value_shift: v must be [tokens, width], got [24]");
  const CcaConvs convs{Tensor({4, 1, 2}, DType::f32), Tensor({4}, DType::f32),
                       Tensor({4, 2, 2}, DType::f32), Tensor({4}, DType::f32)};
  const CcaHeadsForm form{1, 1, Temperature::none, {2, 2, 1e4}};
  EXPECT_EQ(message_of([&] {
              cca_qkv(Tensor({4, 5}, DType::f32), convs, Tensor(), segments, form);
            }),
            "cca_qkv: z must be [tokens, (1 + 1) * 2 and an even number for values], got [4, 5]");
}

}  // namespace
}  // namespace tephra::convolution_test

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tephra/autograd/tape.h"
#include "tephra/core/rng.h"
#include "tephra/ops/as_on_a_gpu.h"
#include "tephra/ops/expert_cases.h"
#include "tephra/ops/merge_norm.h"
#include "tephra/ops/rms_norm.h"
#include "tests/support/message_of.h"

namespace tephra::merge_norm_test {  // a name of its own: test files are compiled together
namespace {

Tensor normal(const Shape& shape, DType dtype, uint32_t stream) {
  Tensor t(shape, dtype);
  fill_normal(t, {1, stream, 0}, 0, 1);
  return t;
}

TEST(MergeNorm, AddsTheBiasBeforeItScales) {
  const Tensor x = full({1, 1}, DType::f64, 2), stream = full({1, 1}, DType::f64, 3);
  const ResidualScale scale{full({1}, DType::f64, 10), full({1}, DType::f64, 5),
                            full({1}, DType::f64, 100), full({1}, DType::f64, 7)};
  const MergedNorm out = merge_norm(x, stream, scale, full({1}, DType::f64, 1), 1e-5);
  EXPECT_EQ(out.stream.at(0), (2 + 5) * 10 + (3 + 7) * 100);
}

TEST(MergeNorm, GivesARowTheSameBitsWhateverItsNeighbours) {
  const Shape vector{37};
  const ResidualScale scale{normal(vector, DType::f32, 1), normal(vector, DType::f32, 2),
                            normal(vector, DType::f32, 3), normal(vector, DType::f32, 4)};
  const Tensor x = normal({9, 37}, DType::f32, 5), stream = normal({9, 37}, DType::f32, 6);
  const Tensor weight = normal(vector, DType::f32, 7);
  const MergedNorm all = merge_norm(x, stream, scale, weight, 1e-5);
  for (int64_t r = 0; r < 9; ++r) {
    const MergedNorm one =
        merge_norm(x.slice_rows(r, r + 1), stream.slice_rows(r, r + 1), scale, weight, 1e-5);
    EXPECT_TRUE(same_bits(one.stream, clone(all.stream.slice_rows(r, r + 1)))) << r;
    EXPECT_TRUE(same_bits(one.normed, clone(all.normed.slice_rows(r, r + 1)))) << r;
  }
}

TEST(MergeNorm, KeepsTheStreamWhenNormsAreRecomputed) {
  Tensor x = normal({16, 64}, DType::f32, 1), weight = full({64}, DType::f32, 1);
  make_leaf(x, DType::f32);
  const ResidualScale scale{full({64}, DType::f32, 1), zeros({64}, DType::f32), {}, {}};
  Tape tape({OpClass::norm});
  const MergedNorm out = merge_norm(x, {}, scale, weight, 1e-5);
  const Tensor stream_again = rms_norm(out.stream, weight, 1e-5);
  const int64_t before = tape.saved_bytes()["rms_norm"];
  EXPECT_GE(before, out.stream.bytes());  // held by who asks for it
  rms_norm(out.normed, weight, 1e-5);
  EXPECT_LT(tape.saved_bytes()["rms_norm"] - before, out.normed.bytes());  // computed again
}

// Rows in the order of experts, as a GPU merges them and by the ops one by one.
struct Routed {
  Tensor y = normal({20, 24}, DType::bf16, 1), weight_N = normal({20}, DType::f32, 2);
  Tensor stream = normal({20, 24}, DType::f32, 3), v = normal({24}, DType::bf16, 4);

  Routed() {
    make_leaf(y, DType::bf16);
    make_leaf(weight_N, DType::f32);
  }
  // Both outputs, then both gradients.
  Tensors run(bool as_there, const Recompute& recompute = {}) {
    for (const Tensor& leaf : {y, weight_N}) clear_gradient(leaf);
    const AsOnAGpu on(as_there);
    const RoutedRows rows{y, weight_N, plan_dispatch(spread_experts(20, 5), 4)};
    Tape tape(recompute);
    const MergedNorm out = merge_norm(rows, stream, {v, v, v, v}, v, 1e-5);
    saved = tape.saved_bytes();
    tape.backward({out.stream, out.normed},
                  {normal({20, 24}, DType::f32, 5), normal({20, 24}, DType::bf16, 6)});
    return {out.stream, out.normed, clone(gradient(y)), clone(gradient(weight_N))};
  }
  std::map<std::string, int64_t> saved;
};

TEST(MergeNorm, OfRoutedRowsHasTheBitsOfCombinedOnes) {
  Routed routed;
  const Tensors want = routed.run(false);
  EXPECT_GT(routed.saved["combine_rows"], 0);
  for (const Recompute& recompute : {Recompute(), Recompute::everything()}) {
    const Tensors got = routed.run(true, recompute);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
  }
}

TEST(MergeNorm, OfRoutedRowsKeepsNoCombinedOnesForAGpu) {
  Routed routed;
  routed.run(false);
  const auto total = [&] {
    int64_t sum = 0;
    for (const auto& [op, bytes] : routed.saved) sum += bytes;
    return sum;
  };
  const int64_t apart = total();
  routed.run(true);
  EXPECT_GE(apart - total(), routed.y.bytes() - routed.weight_N.bytes());  // a place for each token
}

TEST(MergeNorm, TakesRowsThatNobodyRouted) {
  const Tensor x = normal({4, 8}, DType::f32, 1), v = normal({8}, DType::f32, 2);
  const MergedNorm got = merge_norm(RoutedRows{x}, x, {v, v, v, v}, v, 1e-5);
  EXPECT_TRUE(same_bits(got.normed, merge_norm(x, x, {v, v, v, v}, v, 1e-5).normed));
}

TEST(MergeNorm, SaysWhatDoesNotFitOfRoutedRows) {
  const AsOnAGpu everywhere(true);
  const Tensor y({4, 8}, DType::bf16), v({8}, DType::bf16), stream({4, 8}, DType::f32);
  const DispatchPlan plan = plan_dispatch(experts_of({0, 1, 0}), 2);
  const auto message = [&](const Tensor& rows, const Tensor& weight) {
    return message_of([&] {
      merge_norm(RoutedRows{rows, weight, plan}, stream, {v, v, v, v}, v, 1e-5);
    });
  };
  EXPECT_EQ(message(y, Tensor({4}, DType::f32)),
            "merge_norm: rows must be [3, width] to match their plan, got [4, 8]");
  EXPECT_EQ(message(y.slice_rows(0, 3), Tensor({3}, DType::bf16)),
            "merge_norm: weights of routed rows must be [3] of f32, got [3] of bf16");
}

TEST(MergeNorm, SaysWhatDoesNotFit) {
  const Tensor x({4, 8}, DType::bf16), v({8}, DType::bf16), stream({4, 8}, DType::f32);
  const ResidualScale scale{v, v, v, v}, entry{v, v, {}, {}};
  EXPECT_EQ(message_of([&] { merge_norm(v, {}, entry, v, 1e-5); }),
            "merge_norm: x must be [tokens, width], got [8]");
  EXPECT_EQ(message_of([&] { merge_norm(x, stream, scale, Tensor({7}, DType::bf16), 1e-5); }),
            "merge_norm: norm_weight must be [8] to match the last axis of x [4, 8], got [7]");
  EXPECT_EQ(message_of([&] { merge_norm(x, stream, scale, Tensor({8}, DType::f32), 1e-5); }),
            "merge_norm: norm_weight is f32, x is bf16");
  EXPECT_EQ(message_of([&] { merge_norm(x, stream, entry, v, 1e-5); }),
            "merge_norm: residual_scale is missing");
  EXPECT_EQ(message_of([&] { merge_norm(x, {}, scale, v, 1e-5); }),
            "merge_norm: residual_scale and residual_bias need a stream, got none");
  EXPECT_EQ(message_of([&] {
              merge_norm(x, Tensor({3, 8}, DType::f32), scale, v, 1e-5);
            }),
            "merge_norm: stream must be [4, 8] like x, got [3, 8]");
  EXPECT_EQ(message_of([&] { merge_norm(x, x, scale, v, 1e-5); }),
            "merge_norm: stream must be f32 when x is bf16, got bf16");
}

}  // namespace
}  // namespace tephra::merge_norm_test

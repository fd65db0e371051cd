// SPDX-License-Identifier: Apache-2.0
// Every op, every case of its spec, on the GPU against the CPU in f64. Skipped where there is none.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tephra/device/gpu/runtime.h"
#include "tephra/ops/attention.h"
#include "tephra/ops/cca_qkv.h"
#include "tephra/ops/expert_cases.h"
#include "tephra/ops/grouped_linear.h"
#include "tephra/ops/linear_cross_entropy.h"
#include "tephra/ops/merge_norm.h"
#include "tests/ops/op_suite.h"
#include "tests/support/difference.h"
#include "tests/support/only_portable.h"

namespace tephra {
namespace {

using namespace op_suite;  // NOLINT(google-build-using-namespace): the vocabulary of this file

constexpr Device kGpu{Device::Kind::gpu, 0};

class GpuSuite : public testing::TestWithParam<Named> {
 protected:
  void SetUp() override {
    if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
    poison_new_memory(true);
  }
  void TearDown() override { poison_new_memory(false); }
  const OpCase& test() const { return GetParam().test; }
  Tensors inputs(DType dtype, uint64_t seed) const {
    return make_inputs(test().inputs, dtype, seed, kGpu);
  }
};

void expect_same_bits(const Result& a, const Result& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (!a.outputs[i].defined()) continue;
    EXPECT_TRUE(same_bits(a.outputs[i], b.outputs[i])) << "output " << i;
  }
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    if (!a.gradients[i].defined()) continue;
    EXPECT_TRUE(same_bits(a.gradients[i], b.gradients[i])) << "gradient " << i;
  }
}

TEST_P(GpuSuite, HasTheValuesAndGradientsOfTheCpu) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors in = inputs(dtype, 3);
    const Result got = run_with_gradients(test(), in);
    const Result want = run_with_gradients(test(), widened(in));
    const double tolerance = tolerance_of(dtype) * test().looseness;
    for (size_t i = 0; i < got.outputs.size(); ++i) {
      if (!want.outputs[i].defined()) continue;
      EXPECT_EQ(got.outputs[i].device(), kGpu);
      expect_close(got.outputs[i], want.outputs[i], tolerance, format("{} output {}", dtype, i));
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (!got.gradients[i].defined()) continue;
      expect_close(got.gradients[i], want.gradients[i], 4 * tolerance,
                   format("{} gradient of input {}", dtype, i));
    }
  }
}

TEST_P(GpuSuite, GivesTheSameBitsEveryTime) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors in = inputs(dtype, 4);
    const Result once = run_with_gradients(test(), in);
    for (int i = 0; i < 3; ++i) expect_same_bits(once, run_with_gradients(test(), in));
  }
}

// In bf16 one of two ways may be fused and the other not: each is within its bound of the truth.
double two_ways(DType dtype, double looseness) {
  return dtype == DType::f32 ? 1e-5 : 2 * tolerance_of(dtype) * looseness;
}

TEST_P(GpuSuite, AddsToAGradientThatIsAlreadyThere) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors in = inputs(dtype, 5);
    const Result once = run_with_gradients(test(), in);
    const Result twice = run_with_gradients(test(), in, /*clear=*/false);
    for (size_t i = 0; i < in.size(); ++i) {
      if (!once.gradients[i].defined()) continue;
      const Tensor doubled = to_device(clone(once.gradients[i]), kCpu);
      add_into(doubled, doubled);
      expect_close(twice.gradients[i], doubled, two_ways(dtype, test().looseness),
                   format("{} gradient of input {}", dtype, i));
    }
  }
}

TEST_P(GpuSuite, GivesTheSameBitsWhenItsOutputsAreRecomputed) {
  if (test().scalar_loss) return;  // nothing consumes a loss
  const Tensors in = inputs(DType::bf16, 6);
  OpCase squared = test();
  squared.run = [&](const Tensors& x) {
    Tensors out = test().run(x);
    for (Tensor& y : out) {
      if (is_float(y)) y = half_square(y);
    }
    return out;
  };
  const Result kept = run_with_gradients(squared, in);
  expect_same_bits(kept, run_with_gradients(squared, in, true, Recompute::everything()));
}

TEST_P(GpuSuite, TakesTheGradientOfEachOutputAlone) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors in = inputs(dtype, 9), wide = widened(in);
    const Tensors dy = output_gradients(test().run(in), test().scalar_loss);
    if (dy.size() < 2) return;
    for (size_t k = 0; k < dy.size(); ++k) {
      if (!dy[k].defined()) continue;
      const auto run = [&](const Tensors& x, const Tensor& dy_k) {
        for (const Tensor& t : x) {
          if (t.defined() && t.variable()) clear_gradient(t);
        }
        Tape tape;
        const Tensors out = test().run(x);
        Tensors alone(dy.size());
        alone[k] = dy_k;
        tape.backward(out, alone);
      };
      run(in, dy[k]);
      run(wide, to_dtype(to_device(dy[k], kCpu), DType::f64));
      for (size_t i = 0; i < in.size(); ++i) {
        if (!in[i].defined() || !in[i].variable()) continue;
        if (largest(gradient(wide[i])) < 1e-9) {
          // Nothing but roundings of values of order one.
          EXPECT_LE(largest_value(to_device(gradient(in[i]), kCpu)), tolerance_of(dtype)) << i;
          continue;
        }
        expect_close(gradient(in[i]), gradient(wide[i]), 4 * tolerance_of(dtype) * test().looseness,
                     format("{} gradient of input {} from output {}", dtype, i, k));
      }
    }
  }
}

TEST_P(GpuSuite, TakesBlocksOfColumns) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors dense = inputs(dtype, 10);
    const Tensors strided = as_blocks_of_columns(test(), dense);
    const Result want = run_with_gradients(test(), dense);
    const Result got = run_with_gradients(test(), strided);
    const double tolerance = two_ways(dtype, test().looseness);
    for (size_t i = 0; i < want.outputs.size(); ++i) {
      if (!want.outputs[i].defined()) continue;
      expect_close(got.outputs[i], to_device(want.outputs[i], kCpu), tolerance,
                   format("{} output {}", dtype, i));
    }
    for (size_t i = 0; i < dense.size(); ++i) {
      if (!want.gradients[i].defined()) continue;
      expect_close(got.gradients[i], to_device(want.gradients[i], kCpu),
                   dtype == DType::f32 ? tolerance : 4 * tolerance,
                   format("{} gradient of input {}", dtype, i));
    }
  }
}

TEST_P(GpuSuite, SkipsTheGradientsNobodyWants) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Result want = run_with_gradients(test(), inputs(dtype, 8));
    for (size_t only = 0; only < test().inputs.size(); ++only) {
      std::vector<InputSpec> specs = test().inputs;
      if (!specs[only].gradient) continue;
      for (size_t i = 0; i < specs.size(); ++i) specs[i].gradient = i == only;
      const Result got = run_with_gradients(test(), make_inputs(specs, dtype, 8, kGpu));
      if (dtype == DType::f32) {
        EXPECT_TRUE(same_bits(got.gradients[only], want.gradients[only])) << "input " << only;
      } else {  // a fused pass may give all gradients or none
        expect_close(got.gradients[only], to_device(want.gradients[only], kCpu),
                     4 * two_ways(dtype, test().looseness), format("bf16 input {}", only));
      }
    }
  }
}

// x and a weight in bf16 on the GPU: values and gradients beside the CPU's, the same bits twice,
// and the weight's gradient added to what is there.
void expect_weights_as_on_the_cpu(const OpCase& test, const std::string& what) {
  const Tensors in = make_inputs(test.inputs, DType::bf16, 3, kGpu);
  const Result got = run_with_gradients(test, in);
  const Result want = run_with_gradients(test, widened(in));
  expect_close(got.outputs[0], want.outputs[0], tolerance_of(DType::bf16), what);
  expect_close(got.gradients[0], want.gradients[0], 4 * tolerance_of(DType::bf16), what);
  expect_close(got.gradients[1], want.gradients[1], 4 * tolerance_of(DType::bf16), what);
  expect_same_bits(got, run_with_gradients(test, in));
  const Result twice = run_with_gradients(test, in, /*clear=*/false);
  const Tensor doubled = to_device(clone(got.gradients[1]), kCpu);
  add_into(doubled, doubled);
  expect_close(twice.gradients[1], doubled, 1e-5, what + ", accumulated");
}

// The specs' matrices are small; these have tiles of the fast path, whole ones and parts: experts
// with part of a tile, several, more than a band of them, none, and skipped tokens behind the last;
// widths of whole tiles and such that end within one; weights of fewer tiles than blocks, as many
// as blocks and some more (a last round in quarters), and enough for half a round. With 768 rows
// for each expert and more, weight gradients go another way: in wide and tall tiles, with tokens
// that are skipped, an expert without rows, and one with so many that warpgroups work together.
TEST(GpuGroupedLinear, MultipliesTilesOfMatrixUnitsAsTheCpuDoes) {
  if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
  struct Routing {
    int64_t tokens, classes, experts, in, out;
  };
  for (const Routing r : {Routing{700, 5, 4, 256, 512},
                          {130, 3, 6, 256, 512},
                          {1, 1, 2, 256, 512},
                          {64, 1, 1, 256, 512},
                          {1000, 2, 2, 256, 512},
                          {700, 5, 4, 704, 192},
                          {130, 3, 6, 64, 320},
                          {300, 2, 3, 72, 1000},
                          {4700, 2, 2, 72, 520},
                          {700, 5, 5, 1000, 896},
                          {300, 4, 6, 968, 352},
                          {2600, 3, 3, 200, 328},
                          {2600, 4, 3, 264, 520},
                          {1700, 1, 2, 72, 200},
                          {9000, 1, 2, 136, 72}}) {
    const OpCase test{.name = "tiles",
                      .inputs = {{.shape = {r.tokens, r.in}},
                                 InputSpec::parameter({r.experts, r.out, r.in}, 0, 0.1),
                                 InputSpec::index(spread_experts(r.tokens, r.classes))},
                      .run = [](const Tensors& in) -> Tensors {
                        return {grouped_linear(in[0], in[1], plan_dispatch(in[2], in[1].dim(0)))};
                      }};
    expect_weights_as_on_the_cpu(
        test, format("{} tokens, {} experts, {} to {}", r.tokens, r.experts, r.in, r.out));
  }
}

// Widths and vocabularies of whole tiles: the weight gradient goes the experts' way. The specs' are
// smaller.
TEST(GpuLinearCrossEntropy, AddsWeightGradientsInWholeTilesAsTheCpuDoes) {
  if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
  for (const int64_t tokens : {1, 100, 300}) {
    std::vector<int32_t> targets;
    for (int64_t r = 0; r < tokens; ++r) {
      targets.push_back(r % 9 == 8 ? -1 : static_cast<int32_t>(r * 7919 % 1152));
    }
    OpCase test{.name = "tiles",
                .inputs = {{.shape = {tokens, 256}},
                           InputSpec::parameter({1152, 256}, 0, 0.1),
                           InputSpec::index(from_values({tokens}, targets))},
                .run = [](const Tensors& in) -> Tensors {
                  return {linear_cross_entropy(in[0], in[1], Tensor(), in[2], 0.01)};
                }};
    test.scalar_loss = true;
    expect_weights_as_on_the_cpu(test, format("{} tokens", tokens));
  }
}

// Heads of 64, 128 and 256 in bf16 go to the tensor cores; the specs' heads are smaller.
struct WideAttention {
  std::string name;
  int64_t heads, kv_heads, dim;
  KeyRanges ranges;
  int64_t keys;
};

KeyRanges ranges_of(const std::vector<int32_t>& first, const std::vector<int32_t>& last) {
  const Shape shape{static_cast<int64_t>(first.size())};
  return {from_values(shape, first), from_values(shape, last)};
}

std::vector<WideAttention> wide_attention_cases(int64_t dim) {
  std::vector<WideAttention> cases;
  const auto causal = [&](const std::string& name, int64_t heads, int64_t kv_heads,
                          const std::vector<int64_t>& lengths, int64_t window = 0) {
    const Segments segments = Segments::packed(lengths);
    cases.push_back(
        {name, heads, kv_heads, dim, causal_ranges(segments, window), segments.tokens()});
  };
  causal("a tile", 2, 1, {128});
  causal("part of a tile", 8, 2, {37});
  causal("a single token", 4, 2, {1});
  causal("several tiles and a remainder", 8, 2, {421});
  causal("documents", 4, 2, {1, 137, 3, 150, 64, 77});
  causal("a window across documents", 4, 1, {300, 65, 90}, 129);
  causal("a narrow window", 2, 2, {333}, 5);
  causal("three heads to one", 3, 1, {200});
  std::vector<int32_t> first(150, 3), last(150);
  for (int32_t i = 0; i < 150; ++i) last[static_cast<size_t>(i)] = 250 + i;
  cases.push_back({"a chunk on a cache", 4, 2, dim, ranges_of(first, last), 450});
  cases.push_back({"decode steps, with gaps and a row that sees nothing", 4, 2, dim,
                   ranges_of({0, 40, 41, 210, 10}, {33, 41, 200, 395, 10}), 400});
  return cases;
}

OpCase wide_case(const WideAttention& a) {
  const int64_t queries = a.ranges.first_N.numel();
  return {.name = a.name,
          .inputs = {{.shape = {queries, a.heads * a.dim}},
                     {.shape = {a.keys, a.kv_heads * a.dim}},
                     {.shape = {a.keys, a.kv_heads * a.dim}},
                     InputSpec::index(a.ranges.first_N),
                     InputSpec::index(a.ranges.last_N)},
          .run = [dim = a.dim](const Tensors& in) -> Tensors {
            const AttentionOutput out = attention(in[0], in[1], in[2], {in[3], in[4]}, dim,
                                                  1 / std::sqrt(static_cast<double>(dim)));
            return {out.o, out.lse};
          }};
}

class GpuAttention : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
    poison_new_memory(true);
  }
  void TearDown() override { poison_new_memory(false); }
};

TEST_P(GpuAttention, OfWideHeadsHasTheValuesAndGradientsOfTheCpu) {
  for (const WideAttention& a : wide_attention_cases(GetParam())) {
    const OpCase test = wide_case(a);
    const Tensors in = make_inputs(test.inputs, DType::bf16, 3, kGpu);
    const Result got = run_with_gradients(test, in);
    const Result want = run_with_gradients(test, widened(in));
    expect_close(got.outputs[0], want.outputs[0], tolerance_of(DType::bf16), a.name);
    expect_close(got.outputs[1], want.outputs[1], 1e-4, a.name + ", lse");
    for (size_t i = 0; i < 3; ++i) {
      expect_close(got.gradients[i], want.gradients[i], 4 * tolerance_of(DType::bf16),
                   format("{}, gradient {}", a.name, i));
    }
    expect_same_bits(got, run_with_gradients(test, in));
    const Result twice = run_with_gradients(test, in, /*clear=*/false);
    for (size_t i = 0; i < 3; ++i) {
      const Tensor doubled = to_device(clone(got.gradients[i]), kCpu);
      add_into(doubled, doubled);
      expect_close(twice.gradients[i], doubled, tolerance_of(DType::bf16),
                   format("{}, gradient {} accumulated", a.name, i));
    }
  }
}

TEST_P(GpuAttention, OfWideHeadsDoesNotReadWhatNobodySees) {
  for (const WideAttention& a : wide_attention_cases(GetParam())) {
    const OpCase test = wide_case(a);
    const Tensors clean = make_inputs(test.inputs, DType::bf16, 3, kGpu);
    const Result want = run_with_gradients(test, clean);
    std::vector<bool> heard(static_cast<size_t>(a.keys));
    for (int64_t i = 0; i < a.ranges.first_N.numel(); ++i) {
      for (auto j = a.ranges.first_N.at(i); j < a.ranges.last_N.at(i); ++j) {
        heard[static_cast<size_t>(j)] = true;
      }
    }
    Tensors in = clean;
    for (size_t t = 1; t < 3; ++t) {
      const Tensor host = clone(to_device(clean[t], kCpu));
      for (int64_t i = 0; i < host.numel(); ++i) {
        if (heard[static_cast<size_t>(i / host.cols())]) continue;
        host.set(i, std::numeric_limits<double>::quiet_NaN());
      }
      in[t] = to_device(host, kGpu);
      make_leaf(in[t], DType::bf16);
    }
    SCOPED_TRACE(a.name);
    expect_same_bits(want, run_with_gradients(test, in));
  }
}

// Which keys meet in a tile must not follow from what the other queries of a pass see: a prompt is
// read beside others, and in one piece or in several.
TEST_P(GpuAttention, OfAQueryHasTheSameBitsBesideAnyOthers) {
  const int64_t dim = GetParam();
  constexpr int32_t kAhead = 30, kOwn = 40, kBehind = 50;
  std::vector<int32_t> first, last;
  for (int32_t i = 0; i < kAhead; ++i) first.push_back(0), last.push_back(10 + i);
  for (int32_t i = 0; i < kOwn; ++i) first.push_back(421 + i), last.push_back(721 + i);
  for (int32_t i = 0; i < kBehind; ++i) first.push_back(900), last.push_back(901 + i);
  const OpCase test = wide_case({"a window", 4, 2, dim, ranges_of(first, last), 1000});
  const Tensors in = make_inputs(test.inputs, DType::bf16, 3, kGpu);
  const Tensors together = test.run(in);
  // Beside nobody, beside itself, behind others only and before others only.
  constexpr std::pair<int32_t, int32_t> kSome[] = {
      {kAhead, kAhead + kOwn}, {kAhead + 7, kAhead + 8}, {0, kAhead + kOwn}, {kAhead, kAhead + 90}};
  for (const auto& rows : kSome) {
    const int32_t begin = rows.first, end = rows.second;
    Tensors some = in;
    some[0] = in[0].slice_rows(begin, end);
    const auto cut = [&](const std::vector<int32_t>& of) {
      const std::vector<int32_t> own(of.begin() + begin, of.begin() + end);
      return to_device(from_values({end - begin}, own), kGpu);
    };
    some[3] = cut(first);
    some[4] = cut(last);
    const Tensors got = test.run(some);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(same_bits(got[i], together[i].slice_rows(begin, end)))
          << "queries " << begin << " to " << end << ", output " << i;
    }
  }
}

TEST_P(GpuAttention, OfWideHeadsTakesColumnsAndGivesOnlyWhatIsWanted) {
  const OpCase test = wide_case(wide_attention_cases(GetParam())[4]);
  const Tensors dense = make_inputs(test.inputs, DType::bf16, 3, kGpu);
  const Result want = run_with_gradients(test, dense);
  Tensors strided = dense;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t cols = dense[i].cols();
    const Tensor wide = to_device(full({dense[i].rows(), cols + 16}, DType::bf16, NAN), kGpu);
    strided[i] = wide.column_view(8, cols + 8);
    copy_into(strided[i], dense[i]);
    make_leaf(strided[i], DType::bf16);
  }
  expect_same_bits(want, run_with_gradients(test, strided));
  // Not aligned as the copy engine wants it: the portable kernels.
  const Result other = run_with_gradients(test, as_blocks_of_columns(test, dense));
  expect_close(other.outputs[0], to_device(want.outputs[0], kCpu), tolerance_of(DType::bf16), "o");
  for (size_t only = 0; only < 3; ++only) {
    std::vector<InputSpec> specs = test.inputs;
    for (size_t i = 0; i < 3; ++i) specs[i].gradient = i == only;
    const Result got = run_with_gradients(test, make_inputs(specs, DType::bf16, 3, kGpu));
    EXPECT_TRUE(same_bits(got.gradients[only], want.gradients[only])) << "input " << only;
  }
}

// Blocks of a persistent kernel take tile after tile: these have more than two for each
// multiprocessor. Beside the portable kernels, row by row, so that no large row hides a tile of
// small ones.
void expect_rows_as_portable(const Tensor& found, const Tensor& portable, const std::string& what) {
  const Tensor got = to_device(found, kCpu), want = to_device(portable, kCpu);
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const int64_t width = want.ndim() == 0 ? 1 : want.dim(want.ndim() - 1),
                rows = want.numel() / width;
  std::vector<double> distance(static_cast<size_t>(rows)), size(distance);
  for (int64_t i = 0; i < want.numel(); ++i) {
    const auto r = static_cast<size_t>(i / width);
    distance[r] += std::pow(got.at(i) - want.at(i), 2);
    size[r] += std::pow(want.at(i), 2);
  }
  std::vector<double> sorted = size;
  std::nth_element(sorted.begin(), sorted.begin() + rows / 2, sorted.end());
  const double usual = std::sqrt(sorted[static_cast<size_t>(rows / 2)]);
  for (size_t r = 0; r < size.size(); ++r) {
    ASSERT_LE(std::sqrt(distance[r]), 0.1 * (std::sqrt(size[r]) + usual)) << what << " row " << r;
  }
}

void expect_many_tiles_as_portable(const OpCase& test) {
  if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
  const Tensors in = make_inputs(test.inputs, DType::bf16, 3, kGpu);
  const Result got = run_with_gradients(test, in);
  expect_same_bits(got, run_with_gradients(test, in));
  const OnlyPortable portable;
  const Result want = run_with_gradients(test, in);
  for (size_t i = 0; i < got.outputs.size(); ++i) {
    expect_rows_as_portable(got.outputs[i], want.outputs[i], format("output {}", i));
  }
  for (size_t i = 0; i < got.gradients.size(); ++i) {
    if (!got.gradients[i].defined()) continue;
    expect_rows_as_portable(got.gradients[i], want.gradients[i], format("gradient {}", i));
  }
}

OpCase experts_case(const Tensor& expert, int64_t experts) {
  return {.name = "experts",
          .inputs = {{.shape = {expert.dim(0), 2048}},
                     InputSpec::parameter({experts, 2048, 2048}, 0, 0.02),
                     InputSpec::index(expert)},
          .run = [](const Tensors& in) -> Tensors {
            return {grouped_linear(in[0], in[1], plan_dispatch(in[2], in[1].dim(0)))};
          }};
}

TEST(GpuManyTiles, OfExperts) {
  expect_many_tiles_as_portable(experts_case(spread_experts(4700, 9), 8));
}

// Where warpgroups take turns at weight gradients, over many rounds of tiles.
TEST(GpuManyTiles, OfExpertsWithManyRows) {
  expect_many_tiles_as_portable(experts_case(spread_experts(14000, 9), 8));
}

// Where they work together at one expert and take turns at the others, half of the blocks at these
// first.
TEST(GpuManyTiles, OfAnExpertWithMostRows) {
  std::vector<int32_t> expert;
  for (int32_t r = 0; r < 12000; ++r) expert.push_back(r % 8 == 0 ? r / 8 % 7 : 2);
  expect_many_tiles_as_portable(experts_case(from_values({12000}, expert), 8));
}

// Where blocks have one tile to take turns at between two at which warpgroups work together.
TEST(GpuManyTiles, OfAnExpertBetweenTwoWithMostRows) {
  std::vector<int32_t> expert(17000, 0);
  std::fill(expert.begin() + 8300, expert.begin() + 16600, 2);
  std::fill(expert.begin() + 16600, expert.end(), 1);
  expect_many_tiles_as_portable(experts_case(from_values({17000}, expert), 3));
}

// Experts of one stage and without rows.
TEST(GpuManyTiles, OfExpertsWithoutRows) {
  std::vector<int32_t> expert(7064, 5);
  std::fill(expert.begin(), expert.begin() + 64, 3);
  expect_many_tiles_as_portable(experts_case(from_values({7064}, expert), 8));
}

TEST(GpuManyTiles, OfAttention) {
  const Segments segments = Segments::packed(std::vector<int64_t>{4096, 4096});
  const WideAttention a{"two documents", 8, 2, 128, causal_ranges(segments), segments.tokens()};
  expect_many_tiles_as_portable(wide_case(a));
}

// A tile's results leave in two halves through the same boxes, and the next tile's after them.
TEST(GpuManyTiles, OfAttentionWithWideHeads) {
  const Segments segments = Segments::packed(std::vector<int64_t>(18, 500));
  const WideAttention a{"documents", 4, 1, 256, causal_ranges(segments), segments.tokens()};
  expect_many_tiles_as_portable(wide_case(a));
}

TEST(GpuManyTiles, OfTheLoss) {
  constexpr int64_t kTokens = 600, kWords = 313 * 128;
  std::vector<int32_t> targets;
  for (int64_t r = 0; r < kTokens; ++r) {
    targets.push_back(r % 9 == 8 ? -1 : static_cast<int32_t>(r * 7919 % kWords));
  }
  OpCase test{.name = "a vocabulary",
              .inputs = {{.shape = {kTokens, 256}},
                         InputSpec::parameter({kWords, 256}, 0, 0.1),
                         InputSpec::index(from_values({kTokens}, targets))},
              .run = [](const Tensors& in) -> Tensors {
                return {linear_cross_entropy(in[0], in[1], Tensor(), in[2], 0.01)};
              }};
  test.scalar_loss = true;
  expect_many_tiles_as_portable(test);
}

// A row in the order of experts is weighted and rounded as combine_rows does it; gradients of the
// row and of its weight are rounded once less.
TEST(GpuMergeNorm, OfRoutedRowsHasTheBitsOfCombinedOnes) {
  if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
  for (const int64_t width : {24, 2048}) {
    constexpr int64_t kRows = 4700;
    enum { kY, kRowWeight, kStream, kVectors, kExpert = kVectors + 5 };
    OpCase routed{.name = "routed",
                  .inputs = {{.shape = {kRows, width}},
                             InputSpec::stream({kRows}, 0.5, 0.2),
                             InputSpec::stream({kRows, width}, 0, 3)}};
    for (int i = 0; i < 5; ++i) routed.inputs.push_back(InputSpec::parameter({width}, 1, 0.5));
    routed.inputs.push_back(InputSpec::index(spread_experts(kRows, 9)));
    OpCase apart = routed;
    const auto merged = [](const auto& x, const Tensors& in) -> Tensors {
      const Tensor* v = &in[kVectors];
      const MergedNorm out = merge_norm(x, in[kStream], {v[0], v[1], v[2], v[3]}, v[4], 1e-5);
      return {out.stream, out.normed};
    };
    routed.run = [merged](const Tensors& in) {
      return merged(RoutedRows{in[kY], in[kRowWeight], plan_dispatch(in[kExpert], 8)}, in);
    };
    apart.run = [merged](const Tensors& in) {
      return merged(combine_rows(in[kY], in[kRowWeight], plan_dispatch(in[kExpert], 8)), in);
    };
    const Tensors in = make_inputs(routed.inputs, DType::bf16, 12, kGpu);
    const Result got = run_with_gradients(routed, in), want = run_with_gradients(apart, in);
    for (size_t i = 0; i < got.outputs.size(); ++i) {
      EXPECT_TRUE(same_bits(got.outputs[i], want.outputs[i])) << width << ", output " << i;
    }
    EXPECT_TRUE(same_bits(got.gradients[kStream], want.gradients[kStream])) << width;
    for (size_t i = 0; i < kExpert; ++i) {
      expect_close(got.gradients[i], to_device(want.gradients[i], kCpu),
                   4 * tolerance_of(DType::bf16), format("width {}, gradient {}", width, i));
    }
  }
}

// More tokens than its blocks have first tiles for; the CPU's suite would take long. Backward,
// blocks wait for each other's pieces, and there are more pieces (428 and 548) than blocks (264),
// so that some take a second one.
TEST(GpuManyTiles, OfConvolvedQueriesAndKeys) {
  if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
  const Segments segments = Segments::packed(std::vector<int64_t>{3400, 300, 1, 20});
  for (const int64_t dim : {64, 128}) {
    const CcaHeadsForm form{8, 2, Temperature::linear, {dim, dim / 2, 1e4}};
    const int64_t width = form.channels(), values = form.nk * dim;
    const OpCase test{.name = "second tiles",
                      .inputs = {{.shape = {segments.tokens(), width + values}},
                                 InputSpec::parameter({width, 1, 2}, 0.3, 0.5),
                                 InputSpec::parameter({width}, 0.1, 0.5),
                                 InputSpec::parameter({width, dim, 2}, 0, 0.09),
                                 InputSpec::parameter({width}, 0, 0.5),
                                 InputSpec::parameter({form.nk}, 0.8, 0.3)},
                      .run = [=](const Tensors& in) -> Tensors {
                        const CcaConvs convs{in[1], in[2], in[3], in[4]};
                        return {cca_qkv(in[0], convs, in[5], segments, form)};
                      }};
    const Tensors in = make_inputs(test.inputs, DType::bf16, 3, kGpu);
    const Result got = run_with_gradients(test, in);
    for (int again = 0; again < 3; ++again) expect_same_bits(got, run_with_gradients(test, in));
    const Result want = run_with_gradients(test, widened(in));
    expect_rows_as_portable(got.outputs[0], want.outputs[0], format("output, heads of {}", dim));
    constexpr size_t kTemp = 5;
    for (size_t i = 0; i < kTemp; ++i) {
      expect_close(got.gradients[i], want.gradients[i], 4 * tolerance_of(DType::bf16),
                   format("gradient {}, heads of {}", i, dim));
    }
    // A number for each key, of terms that cancel: by what they would come to if they were random.
    const double terms = std::sqrt(static_cast<double>(segments.tokens() * dim));
    const Tensor dtemp = to_device(got.gradients[kTemp], kCpu);
    for (int64_t key = 0; key < form.nk; ++key) {
      EXPECT_NEAR(dtemp.at(key), want.gradients[kTemp].at(key), tolerance_of(DType::bf16) * terms);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, GpuAttention, testing::Values(64, 128, 256));

INSTANTIATE_TEST_SUITE_P(Ops, GpuSuite, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Named>& param) {
                           return param.param.op + "_" + std::to_string(param.index);
                         });

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Quantised models: on a GPU they have the bits of their weights written out in bf16, and are as
// near the CPU's integer products as those. GPU tests are skipped where there is none.
#include <gtest/gtest.h>

#include <iostream>

#include "tephra/device/gpu/runtime.h"
#include "tephra/infer/verify.h"
#include "tests/infer/step_batch.h"
#include "tests/support/only_portable.h"

namespace tephra {
namespace {

using namespace step_test;  // NOLINT(google-build-using-namespace): the vocabulary of this file

constexpr Quantisation kEight{PackedFormat::q8, PackedFormat::q8};
constexpr Quantisation kFour{PackedFormat::q4, PackedFormat::q4};
constexpr Quantisation kMixed{PackedFormat::q4, PackedFormat::q8};

std::string bits_of(const Quantisation& q) { return to_text(q.body) + ", head " + to_text(q.head); }

class PackedStepGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
    poison_new_memory(true);
  }
  void TearDown() override { poison_new_memory(false); }
};

std::vector<int64_t> lengths_of(size_t count) {
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < count; ++i) lengths.push_back(1 + 37 * int64_t(i) % 140);
  return lengths;
}

// Steps, and passes of the ops, of the quantised model beside those of the same weights in bf16.
void expect_bits_of_written(const zaya1::Config& config, const Quantisation& q, size_t rows) {
  const OnlyPortable portable;  // the library's choice may depend on where a matrix lies
  const auto packed = quantised_step_model(config, q, kFirstGpu, DType::bf16);
  const auto written = quantised_step_model(config, q, kFirstGpu, DType::bf16, true);
  const std::vector<int64_t> lengths = lengths_of(rows);
  StepBatch step(*packed, lengths), want(*written, lengths);
  StepBatch ops(*packed, lengths), want_ops(*written, lengths);
  const std::string what = bits_of(q) + format(", {} rows", rows);
  ASSERT_TRUE(step.takes_steps()) << what;
  for (uint32_t i = 0; i < 2; ++i) {
    const std::vector<int32_t> tokens = step_tokens(int64_t(rows), 100 + i);
    const Tensor by_ops = ops.by_ops(tokens), wanted_by_ops = want_ops.by_ops(tokens);
    EXPECT_TRUE(same_bits(by_ops, wanted_by_ops))
        << what << ", ops, pass " << i << ": apart by " << farthest(by_ops, wanted_by_ops);
    const Tensor got = step.by_step(tokens), wanted = want.by_step(tokens);
    EXPECT_TRUE(same_bits(got, wanted))
        << what << ", step " << i << ": apart by " << farthest(got, wanted);
  }
}

TEST_F(PackedStepGpu, HasTheBitsOfItsWeightsInBf16) {
  for (const Quantisation& q : {kEight, kFour, kMixed}) {
    for (const size_t rows : {1u, 4u, 20u}) expect_bits_of_written(step_config(), q, rows);
  }
}

TEST_F(PackedStepGpu, HasThemWithManyTokensToChooseFrom) {
  zaya1::Config config = step_config(4);
  config.vocab_size = 1 << 14;  // from here on blocks take whole panels of the head
  for (const Quantisation& q : {kEight, kFour}) expect_bits_of_written(config, q, 2);
}

TEST_F(PackedStepGpu, HasThemAtTheWidthsOfTheLargeModel) {
  zaya1::Config config = step_config();
  config.hidden = 2048;
  config.expert_hidden = 2048;
  config.num_experts = 2;
  config.num_layers = 1;
  config.layers.resize(1);
  for (const Quantisation& q : {kEight, kFour}) {
    for (const size_t rows : {1u, 20u}) expect_bits_of_written(config, q, rows);
  }
}

TEST_F(PackedStepGpu, SaysWhatTheCpuSays) {
  for (const Quantisation& q : {kEight, kFour, kMixed}) {
    const auto on_gpu = quantised_step_model(step_config(), q, kFirstGpu, DType::bf16);
    const auto on_cpu = quantised_step_model(step_config(), q, kCpu, DType::f32);
    const std::vector<int64_t> lengths{1, 63, 130, 401};
    StepBatch step(*on_gpu, lengths), oracle(*on_cpu, lengths);
    for (uint32_t i = 0; i < 2; ++i) {
      const std::vector<int32_t> tokens = step_tokens(4, 100 + i);
      EXPECT_LE(farthest(step.by_step(tokens), oracle.by_ops(tokens)), 0.05)
          << bits_of(q) << ", step " << i;
    }
  }
}

// In f32 nothing but the CPU's rounding of activations to 16 bits is between them.
TEST_F(PackedStepGpu, ComputesInF32AsTheCpuDoes) {
  for (const Quantisation& q : {kEight, kFour}) {
    const auto on_gpu = quantised_step_model(step_config(), q, kFirstGpu, DType::f32);
    const auto on_cpu = quantised_step_model(step_config(), q, kCpu, DType::f32);
    const std::vector<int64_t> lengths{5, 130};
    StepBatch ops(*on_gpu, lengths), oracle(*on_cpu, lengths);
    EXPECT_FALSE(ops.takes_steps());
    const std::vector<int32_t> tokens = step_tokens(2, 100);
    EXPECT_LE(farthest(ops.by_ops(tokens), oracle.by_ops(tokens)), 1e-3) << bits_of(q);
  }
}

TEST_F(PackedStepGpu, IsNearTheForwardPassWhenItTakesTheSameExperts) {
  for (const Quantisation& q : {kEight, kFour}) {
    const auto model = quantised_step_model(step_config(), q, kFirstGpu, DType::bf16);
    const VerifyReport report = verify_engine(*model, 24, 1);
    ASSERT_EQ(report.checks.size(), 1u);
    EXPECT_LE(report.checks[0].max_abs, 2e-4) << bits_of(q) << ": KL from the forward pass";
    std::cout << format("{}: mean KL {:.2g}\n", bits_of(q), report.checks[0].max_abs);
  }
}

// The premise of the tests above, where there is no GPU: written out, the CPU's weights say what
// its integer products say.
TEST(PackedStep, WrittenOutTheWeightsSayTheSame) {
  for (const Quantisation& q : {kEight, kFour}) {
    const auto packed = quantised_step_model(step_config(2), q, kCpu, DType::f32);
    const auto written = quantised_step_model(step_config(2), q, kCpu, DType::f32, true);
    const std::vector<int64_t> lengths{5, 70};
    StepBatch a(*packed, lengths), b(*written, lengths);
    const std::vector<int32_t> tokens = step_tokens(2, 100);
    EXPECT_LE(farthest(a.by_ops(tokens), b.by_ops(tokens)), 1e-3) << bits_of(q);
  }
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// A decode step's products have a form for the GPU at hand and a portable one, and forms for few
// rows and for many: all give the same bits. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "tephra/device/gpu/runtime.h"
#include "tephra/device/gpu/usable.h"
#include "tests/infer/step_batch.h"
#include "tests/support/only_portable.h"

namespace tephra {
namespace {

using namespace step_test;  // NOLINT(google-build-using-namespace): the vocabulary of this file

class DecodeFormsGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
    poison_new_memory(true);
  }
  void TearDown() override { poison_new_memory(false); }
};

std::vector<int64_t> short_lengths(size_t count) {
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < count; ++i) lengths.push_back(1 + int64_t(i) % 5);
  return lengths;
}

// Two steps of `rows` sequences; a step records its kernels when it runs first.
std::vector<Tensor> two_steps(Model& model, size_t rows, bool portable) {
  const OnlyPortable prompts;  // read in one way
  StepBatch batch(model, short_lengths(rows));
  const OnlyPortable steps(portable);
  std::vector<Tensor> logits;
  for (uint32_t i = 0; i < 2; ++i) {
    logits.push_back(batch.by_step(step_tokens(int64_t(rows), 40 + i)));
  }
  return logits;
}

void expect_same_bits(Model& model, const std::string& what,
                      const std::vector<size_t>& numbers = {128, 64, 32, 16, 5, 1}) {
  std::vector<Tensor> most;
  for (const size_t rows : numbers) {
    const auto got = two_steps(model, rows, false), portable = two_steps(model, rows, true);
    if (most.empty()) most = portable;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(same_bits(got[i], portable[i])) << what << ": " << rows << " rows, step " << i
                                                  << ", apart by " << farthest(got[i], portable[i]);
      EXPECT_TRUE(same_bits(got[i], most[i].slice_rows(0, int64_t(rows))))
          << what << ": " << rows << " rows as the first of 128, step " << i;
    }
  }
}

// As wide as the published model: a row alone takes the kernel for all layers.
zaya1::Config published_form() {
  zaya1::Config config = step_config();
  config.hidden = 2048;
  config.expert_hidden = 2048;
  config.num_experts = 2;
  return config;
}

// Several depths of the products; few experts have more tokens each than stay in registers or fit a
// tile, of many some have none.
zaya1::Config narrow_form() {
  zaya1::Config config = step_config(4);
  config.hidden = 512;
  config.expert_hidden = 256;
  return config;
}

zaya1::Config published_layers(size_t count) {
  zaya1::Config config = published_form();
  config.num_layers = int64_t(count);
  config.layers.resize(count);
  return config;
}

zaya1::Config many_experts() {
  zaya1::Config config = step_config();
  config.hidden = 512;
  config.num_experts = 24;
  return config;
}

// Whether the step's next token goes through all layers in one kernel.
bool passes(DecodeStep& step) {
  gpu::start_profile(kFirstGpu);
  step.run_on(false);
  const auto kernels = gpu::finish_profile(kFirstGpu);
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const gpu::KernelTime& k) { return k.name == "decode_pass"; });
}

void expect_same_step(StepBatch& alone, StepBatch& company, const std::vector<int32_t>& tokens,
                      const std::string& what) {
  const Tensor want = company.by_step(tokens).slice_rows(0, 1);
  const Tensor got = alone.by_step({tokens[0]});
  EXPECT_TRUE(same_bits(got, want)) << what << ", apart by " << farthest(got, want);
  EXPECT_TRUE(same_bits(to_device(clone(alone.step->experts()), kCpu),
                        to_device(clone(company.step->experts().column_view(0, 1)), kCpu)))
      << what << ": experts";
}

// A row alone goes through all layers of the published shape in one kernel, beside another one in a
// kernel for each phase.
void expect_alone_as_in_company(Model& model, const std::vector<int64_t>& lengths,
                                const std::string& what) {
  for (const int64_t length : lengths) {
    StepBatch alone(model, {length}), company(model, {length, 7});
    for (uint32_t i = 0; i < 4; ++i) {
      if (i >= 2) {  // told which experts to take; one layer has none
        const Tensor told = full({3, 2}, DType::i32, int64_t(i) % 2);
        told.set(2, 2);
        alone.replay(clone(told.column_view(0, 1)));
        company.replay(told);
      }
      expect_same_step(alone, company, step_tokens(2, 60 + i),
                       format("{}: {} keys, step {}", what, length, i));
    }
    const gpu::Info& device = gpu::status().devices[0];  // the kernel has 129 blocks that all run
    EXPECT_EQ(passes(*alone.step), gpu::has_hopper_code() && device.architecture == "sm_90" &&
                                       device.multiprocessors > 128 && !gpu::only_portable());
    EXPECT_FALSE(passes(*company.step));
  }
}

TEST_F(DecodeFormsGpu, ARowAloneHasTheBitsOfOneInCompany) {
  expect_alone_as_in_company(*step_model(published_form(), kFirstGpu), {1, 63, 64}, "bf16");
}

// The kernel guesses an expert before it is told: of these three one is right, one wrong, one none,
// and another one in the second layer. Short enough for sanitizers.
TEST_F(DecodeFormsGpu, ARowAloneHasThemWhateverExpertItIsTold) {
  const auto model = step_model(published_layers(2), kFirstGpu);
  for (const int expert : {0, 1, 2}) {
    StepBatch alone(*model, {5}), company(*model, {5, 7});
    const Tensor told = full({2, 2}, DType::i32, expert);
    for (const int64_t row : {2, 3}) told.set(row, (expert + 1) % 3);
    alone.replay(clone(told.column_view(0, 1)));
    company.replay(told);
    expect_same_step(alone, company, step_tokens(2, 60), format("told {}", expert));
  }
}

TEST_F(DecodeFormsGpu, ARowAloneHasThemWithManyKeys) {
  expect_alone_as_in_company(*step_model(published_form(), kFirstGpu), {700, 2500, 9000}, "bf16");
}

TEST_F(DecodeFormsGpu, ARowAloneHasThemQuantised) {
  for (const PackedFormat packed : {PackedFormat::q8, PackedFormat::q4}) {
    const auto model =
        quantised_step_model(published_form(), {packed, packed}, kFirstGpu, DType::bf16);
    expect_alone_as_in_company(*model, {130}, std::string(to_text(packed)));
  }
}

TEST_F(DecodeFormsGpu, GiveTheSameBitsInBf16) {
  expect_same_bits(*step_model(narrow_form(), kFirstGpu), "narrow");
  expect_same_bits(*step_model(published_layers(1), kFirstGpu), "a published layer");
}

TEST_F(DecodeFormsGpu, GiveTheSameBitsWithManyExperts) {
  expect_same_bits(*step_model(many_experts(), kFirstGpu), "many experts");
}

TEST_F(DecodeFormsGpu, GiveTheSameBitsInTiles) {  // alone, and short enough for sanitizers
  expect_same_bits(*step_model(many_experts(), kFirstGpu), "tiles", {128});
}

TEST_F(DecodeFormsGpu, GiveTheSameBitsQuantised) {
  for (const PackedFormat packed : {PackedFormat::q8, PackedFormat::q4}) {
    for (const zaya1::Config& config : {narrow_form(), published_layers(1), many_experts()}) {
      const auto model = quantised_step_model(config, {packed, packed}, kFirstGpu, DType::bf16);
      expect_same_bits(*model, format("{}, width {}", to_text(packed), config.hidden));
    }
  }
}

}  // namespace
}  // namespace tephra

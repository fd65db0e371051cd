// SPDX-License-Identifier: Apache-2.0
// A layer of compressed convolutional attention says the same by the ops one by one and by the one
// that a GPU takes, whatever else the layer has.
#include <gtest/gtest.h>

#include "tephra/core/rng.h"
#include "tephra/nn/cca_attention.h"
#include "tephra/ops/as_on_a_gpu.h"
#include "tests/support/difference.h"

namespace tephra::cca_attention_test {
namespace {

constexpr int64_t kWidth = 32, kHead = 64, kQueries = 2 * kHead, kKeys = kHead;

CcaConfig config_of(bool bias, bool value_shift) {
  CcaConfig config{2, 1, kHead, 2, 2, kHead / 2, 1e4, 0, bias};
  config.value_shift = value_shift;
  return config;
}

std::vector<ParameterSpec> specs_of(const CcaConfig& c) {
  std::vector<ParameterSpec> specs;
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in) {
    specs.push_back({name + ".weight", {out, in}, ParameterKind::matrix, 0, 0.2});
    if (c.bias) specs.push_back({name + ".bias", {out}, ParameterKind::vector, 0.3, 0});
  };
  matrix("qkv_proj.q_proj", kQueries, kWidth);
  matrix("qkv_proj.k_proj", kKeys, kWidth);
  if (c.value_shift) {
    matrix("qkv_proj.v_proj_current", kKeys / 2, kWidth);
    matrix("qkv_proj.v_proj_delayed", kKeys / 2, kWidth);
  } else {
    matrix("qkv_proj.v_proj", kKeys, kWidth);
  }
  const int64_t channels = c.conv_channels();
  const auto convolution = [&](const std::string& name, int64_t inputs) {
    const std::string at = "qkv_proj.conv_qk_" + name;
    specs.push_back({at + ".weight", {channels, inputs, 2}, ParameterKind::convolution, 0, 0.5});
    specs.push_back({at + ".bias", {channels}, ParameterKind::vector, 0.1, 0});
  };
  convolution("depthwise", 1);
  convolution("grouped", kHead);
  specs.push_back({"qk_norm.temp", {1}, ParameterKind::vector, 1, 0});
  matrix("o_proj", kWidth, kQueries);
  return specs;
}

struct Named {
  std::string name;
  Tensor value;
};

// The layer's output, the gradient of its input, and those of its parameters.
std::vector<Named> run(const CcaConfig& config, bool as_there) {
  const AsOnAGpu on(as_there);
  const Segments segments = Segments::packed(std::vector<int64_t>{5, 1, 9});
  const KeyRanges ranges = causal_ranges(segments);
  ParameterStore store(specs_of(config), DType::bf16, kCpu, true);
  store.initialise(1);
  const CcaAttention layer(config, store, "");
  Tensor h({segments.tokens(), kWidth}, DType::bf16), dy = empty_like(h);
  fill_normal(h, {1, 0, 0}, 0, 1);
  fill_normal(dy, {2, 0, 0}, 0, 1);
  make_leaf(h, DType::bf16);
  Tape tape;
  const Tensor y = layer.forward(h, {.segments = segments, .ranges = ranges});
  EXPECT_EQ(tape.saved_bytes().contains("cca_qkv"), as_there) << "which ops were recorded";
  tape.backward({y}, {dy});
  std::vector<Named> found{{"output", y}, {"the input's gradient", gradient(h)}};
  for (size_t i = 0; i < store.specs().size(); ++i) {
    found.push_back({"the gradient of " + store.specs()[i].name, gradient(store.at(i))});
  }
  return found;
}

// By its own largest element, since two ways round differently on their way.
void expect_close(const Tensor& found, const Tensor& wanted, const std::string& what) {
  EXPECT_LT(largest_difference(found, wanted), 0.02 * largest_value(wanted)) << what;
}

TEST(CcaAttention, IsTheSameInOneOpAsInMany) {
  for (const bool bias : {false, true}) {
    for (const bool value_shift : {false, true}) {
      const CcaConfig config = config_of(bias, value_shift);
      const auto one = run(config, true), many = run(config, false);
      const std::string form = format("bias {}, value shift {}: ", bias, value_shift);
      for (size_t i = 0; i < many.size(); ++i) {
        expect_close(one[i].value, many[i].value, form + many[i].name);
      }
    }
  }
}

}  // namespace
}  // namespace tephra::cca_attention_test

// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_attention.h"

#include <algorithm>
#include <memory>

#include "tephra/base/clock.h"
#include "tephra/base/signals.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/nn/cca_attention.h"
#include "tephra/nn/gqa_attention.h"

namespace tephra {
namespace {

constexpr double kTheta = 1e4;
constexpr int64_t kTaps = 2;

struct LayerShape {
  int64_t query_heads, kv_heads, head_dim, width;

  int64_t queries() const { return query_heads * head_dim; }
  int64_t keys() const { return kv_heads * head_dim; }
};

LayerShape shape_of(const AttentionForm& form, int64_t head_dim, int64_t width) {
  const auto heads = [&](int64_t compression) {
    const int64_t narrowed = width / compression;
    require(narrowed % head_dim == 0,
            "{}: {} columns do not divide into heads of {}; use a wider stream or smaller heads",
            form.name, narrowed, head_dim);
    return narrowed / head_dim;
  };
  return {heads(form.query_compression), heads(form.key_compression), head_dim, width};
}

std::vector<ParameterSpec> specs_of(const LayerShape& s, bool convolutional) {
  std::vector<ParameterSpec> specs;
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in) {
    specs.push_back({name, {out, in}, ParameterKind::matrix, 0, 0.02});
  };
  const auto vector = [&](const std::string& name, int64_t size, double start) {
    specs.push_back({name, {size}, ParameterKind::vector, start, 0});
  };
  if (!convolutional) {
    matrix("q_proj.weight", s.queries(), s.width);
    matrix("k_proj.weight", s.keys(), s.width);
    matrix("v_proj.weight", s.keys(), s.width);
  } else {
    const int64_t channels = s.queries() + s.keys();
    matrix("qkv_proj.q_proj.weight", s.queries(), s.width);
    matrix("qkv_proj.k_proj.weight", s.keys(), s.width);
    matrix("qkv_proj.v_proj_current.weight", s.keys() / 2, s.width);
    matrix("qkv_proj.v_proj_delayed.weight", s.keys() / 2, s.width);
    specs.push_back({"qkv_proj.conv_qk_depthwise.weight",
                     {channels, 1, kTaps},
                     ParameterKind::convolution,
                     0,
                     0.5});
    vector("qkv_proj.conv_qk_depthwise.bias", channels, 0);
    specs.push_back({"qkv_proj.conv_qk_grouped.weight",
                     {channels, s.head_dim, kTaps},
                     ParameterKind::convolution,
                     0,
                     0.05});
    vector("qkv_proj.conv_qk_grouped.bias", channels, 0);
    vector("qk_norm.temp", s.kv_heads, 1);
  }
  matrix("o_proj.weight", s.width, s.queries());
  return specs;
}

std::unique_ptr<AttentionLayer> make_layer(const LayerShape& s, bool convolutional,
                                           const ParameterStore& store) {
  if (!convolutional) {
    return std::make_unique<GqaAttention>(
        GqaConfig{s.query_heads, s.kv_heads, s.head_dim, s.head_dim, kTheta, 0, false}, store, "");
  }
  return std::make_unique<CcaAttention>(CcaConfig{s.query_heads, s.kv_heads, s.head_dim, kTaps,
                                                  kTaps, s.head_dim / 2, kTheta, 0, false},
                                        store, "");
}

// Seconds of one call, after what it starts has ended; the median of several.
double median_seconds(const AttentionBenchOptions& o, FunctionRef<double()> once) {
  constexpr size_t kLeast = 5, kMost = 200;
  once();  // warms up
  std::vector<double> seconds;
  for (const double begin = steady_seconds();
       seconds.size() < kLeast ||
       (steady_seconds() - begin < o.seconds && seconds.size() < kMost);) {
    stop_if_interrupted();
    seconds.push_back(once());
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

void wait(Device device) {
  if (device.kind == Device::Kind::gpu) gpu::synchronize(device);
}

}  // namespace

std::vector<AttentionForm> attention_forms() {
  return {{"MHA", 1, 1, false}, {"CCA 2x/8x", 2, 8, true}, {"CCA 4x", 4, 4, true}};
}

AttentionSpeed measure_attention(const AttentionForm& form, int64_t head_dim, int64_t tokens,
                                 const AttentionBenchOptions& o) {
  const LayerShape s = shape_of(form, head_dim, o.width);
  ParameterStore store(specs_of(s, form.convolutional), o.dtype, o.device, true);
  store.initialise(1);
  const auto layer = make_layer(s, form.convolutional, store);
  const Segments given = Segments::batch(1, tokens);
  const Segments segments = to_device(given, o.device);
  const KeyRanges ranges = to_device(causal_ranges(given), o.device);
  const LayerContext context{.segments = segments, .ranges = ranges};
  Tensor h({tokens, o.width}, o.dtype, o.device), dy = empty_like(h);
  fill_normal(h, {1, 0, 0}, 0, 1);
  fill_normal(dy, {2, 0, 0}, 0, 1e-2);
  make_leaf(h, o.dtype);

  AttentionSpeed speed;
  speed.forward_seconds = median_seconds(o, [&] {
    const NoGrad no_grad;
    wait(o.device);
    return seconds_of([&] {
      layer->forward(h, context);
      wait(o.device);
    });
  });
  speed.backward_seconds = median_seconds(o, [&] {
    store.clear_gradients();
    clear_gradient(h);
    Tape tape;
    const Tensor y = layer->forward(h, context);
    wait(o.device);
    return seconds_of([&] {
      tape.backward({y}, {dy});
      wait(o.device);
    });
  });
  const auto n = static_cast<double>(tokens);
  double weights = 0;
  for (const ParameterSpec& spec : store.specs()) {
    if (spec.shape.ndim() >= 2) weights += static_cast<double>(spec.shape.numel());
  }
  const double products = 2 * n * weights;
  const double scores = 4 * static_cast<double>(s.queries()) * n * (n + 1) / 2;
  speed.forward_flops = products + scores;
  speed.backward_flops = 2 * products + 2.5 * scores;
  return speed;
}

}  // namespace tephra

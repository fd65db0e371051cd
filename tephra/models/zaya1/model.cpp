// SPDX-License-Identifier: Apache-2.0
// Shapes: N tokens, H stream width, R router width.
#include "tephra/models/zaya1/model.h"

#include <algorithm>
#include <cmath>

#include "tephra/core/trace.h"
#include "tephra/models/zaya1/layers.h"
#include "tephra/ops/embedding.h"
#include "tephra/ops/linear.h"
#include "tephra/ops/linear_cross_entropy.h"

namespace tephra::zaya1 {
namespace {

ResidualScale residual_scale(const ParameterStore& store, const std::string& prefix) {
  return {.hidden_scale = store[prefix + "hidden_states_scale"],
          .hidden_bias = store[prefix + "hidden_states_bias"],
          .residual_scale = store[prefix + "residual_scale"],
          .residual_bias = store[prefix + "residual_bias"]};
}

std::variant<Moe, DenseFfn> make_mlp(const Config& c, int64_t index, const ParameterStore& store,
                                     const std::string& prefix) {
  if (c.mlp == MlpType::dense) return DenseFfn(store, prefix);
  return Moe{.router = Router(c.norm_eps, index == 0, store, prefix + "gate."),
             .experts = Experts(c.num_experts, c.skip_rule, store, prefix + "experts.")};
}

Layer make_layer(const Config& c, int64_t index, const ParameterStore& store) {
  const std::string prefix = format("model.layers.{}.", index);
  const LayerConfig& own = c.layers[static_cast<size_t>(index)];
  return {
      .input_norm = store[prefix + "input_layernorm.weight"],
      .attention = make_attention(c, own, store, prefix + "self_attn."),
      .after_attention = residual_scale(store, prefix + "post_attention_residual_scale."),
      .mlp_norm = store[prefix + "post_attention_layernorm.weight"],
      .mlp = make_mlp(c, index, store, prefix + "mlp."),
      .after_mlp = residual_scale(store, prefix + "post_mlp_residual_scale."),
  };
}

// Ids that the released tokenizer knows: the rows of a vocabulary of 262,272 beyond are padding.
int64_t usable_tokens(const Config& config, const LoadOptions& options) {
  constexpr int64_t kPadded = 262272, kKnown = 262147;
  const int64_t known = config.vocab_size == kPadded ? kKnown : config.vocab_size;
  return std::min(config.vocab_size, options.usable_tokens > 0 ? options.usable_tokens : known);
}

}  // namespace

Zaya1::Zaya1(const Config& config, const LoadOptions& options)
    : config_(config),
      tokens_{.vocab_size = config.vocab_size,
              .usable = usable_tokens(config, options),
              .pad = config.pad_id,
              .bos = config.bos_id,
              .eos = config.eos_ids},
      store_(zaya1::parameters(config), options.dtype, options.device, options.with_gradients,
             options.weights),
      embedding_(store_.weight("model.embed_tokens.weight")),
      entry_{.hidden_scale = store_["model.input_hidden_states_scale"],
             .hidden_bias = store_["model.input_hidden_states_bias"],
             .residual_scale = {},
             .residual_bias = {}},
      final_norm_(store_["model.norm.weight"]) {
  for (int64_t i = 0; i < config.num_layers; ++i) layers_.push_back(make_layer(config, i, store_));
  head_weight_ = config.tied_embedding ? embedding_ : store_.weight("lm_head.weight");
  if (config.lm_head_bias) head_bias_ = store_["lm_head.bias"];
}

StateSpec Zaya1::state_spec() const {
  StateSpec spec;
  for (const LayerConfig& layer : config_.layers) {
    spec.layers.push_back(attention_state(config_, layer));
  }
  return spec;
}

std::vector<BalancedRouter> Zaya1::routers() const {
  std::vector<BalancedRouter> routers;
  if (config_.mlp == MlpType::dense) return routers;
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const std::string name = format("model.layers.{}.mlp.gate.balancing_biases", i);
    routers.push_back({format("router.{}.expert", i), name, store_[name], config_.num_experts});
  }
  return routers;
}

void Zaya1::set_rope_theta(double theta) {
  require(std::isfinite(theta) && theta > 0, "rope_theta: expected a number above 0, got {}",
          theta);
  const bool any = std::any_of(config_.layers.begin(), config_.layers.end(),
                               [](const LayerConfig& layer) { return layer.window == 0; });
  require(any,
          "rope_theta: every layer has a window and keeps its own; expected a model with a "
          "layer that sees the whole context");
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (config_.layers[i].window > 0) continue;
    config_.layers[i].rope_theta = theta;
    layers_[i].attention->set_rope_theta(theta);
  }
}

RoutedRows Zaya1::mlp(size_t i, const Tensor& h_NH, Tensor& states_NR) const {
  if (const auto* dense = std::get_if<DenseFfn>(&layers_[i].mlp)) return {dense->forward(h_NH)};
  const Moe& moe = std::get<Moe>(layers_[i].mlp);
  const RouterOutput routed = moe.router.forward(h_NH, states_NR, format("router.{}", i));
  states_NR = routed.states_NR;
  return moe.experts.forward(h_NH, routed.routing);
}

void Zaya1::announce_after_attention(size_t i, int64_t rows) const {
  const auto* moe = std::get_if<Moe>(&layers_[i].mlp);
  if (moe == nullptr) return;
  const Layer& layer = layers_[i];
  const ResidualScale& merge = layer.after_attention;
  moe->router.read_ahead(rows, {&merge.hidden_scale, &merge.hidden_bias, &merge.residual_scale,
                                &merge.residual_bias, &layer.mlp_norm});
}

Tensor Zaya1::forward(const Tensor& ids_N, const Segments& given, Decoding* decoding) const {
  const Segments segments = to_device(given, store_.device());
  const double eps = config_.norm_eps;
  const int64_t pad = config_.pad_row_gets_no_input_gradient ? config_.pad_id : -1;
  KeyRanges ranges;

  const Tensor e_NH = embedding(ids_N, embedding_, store_.dtype(), pad);
  MergedNorm merged = merge_norm(e_NH, {}, entry_, layers_[0].input_norm, eps);
  tap("hidden.0", merged.stream);

  Tensor states_NR;  // the router's, carried over depth
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const int64_t window = config_.layers[i].window;
    const bool new_window = i == 0 || window != config_.layers[i - 1].window;
    if (!decoding && new_window) {
      ranges = to_device(causal_ranges(given, window), store_.device());
    }
    const auto announce = [&] { announce_after_attention(i, ids_N.numel()); };
    const FunctionRef<void()> announce_next = announce;
    const LayerContext context{
        .segments = segments,
        .ranges = decoding ? decoding->ranges[i] : ranges,
        .state = decoding ? &decoding->layers[i] : nullptr,
        .write_row_N = decoding ? &decoding->write_row_N : nullptr,
        .kept_rows = decoding && decoding->kept_rows ? &decoding->kept_rows : nullptr,
        .announce_next = &announce_next};

    const Tensor a_NH = layer.attention->forward(merged.normed, context);
    merged = merge_norm(a_NH, merged.stream, layer.after_attention, layer.mlp_norm, eps);
    const RoutedRows m_NH = mlp(i, merged.normed, states_NR);

    const bool last = i + 1 == layers_.size();
    const Tensor& next_norm = last ? final_norm_ : layers_[i + 1].input_norm;
    merged = merge_norm(m_NH, merged.stream, layer.after_mlp, next_norm, eps);
    tap(format("hidden.{}", i + 1), last ? merged.normed : merged.stream);
  }
  return merged.normed;
}

Tensor Zaya1::logits(const Tensor& h_NH) const {
  return linear_acc(h_NH, head_weight_, head_bias_);
}

Tensor Zaya1::loss(const Tensor& h_NH, const Tensor& targets_N, double scale) const {
  return linear_cross_entropy(h_NH, head_weight_.tensor(), head_bias_, targets_N, scale);
}

std::unique_ptr<Model> create(const Config& config, const LoadOptions& options) {
  return std::make_unique<Zaya1>(config, options);
}

}  // namespace tephra::zaya1

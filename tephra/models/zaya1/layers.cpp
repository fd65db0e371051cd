// SPDX-License-Identifier: Apache-2.0
#include "tephra/models/zaya1/layers.h"

#include "tephra/nn/cca_attention.h"
#include "tephra/nn/gqa_attention.h"
#include "tephra/nn/mla_attention.h"

namespace tephra::zaya1 {
namespace {

CcaConfig cca_config(const Config& c, const LayerConfig& layer) {
  return {.query_heads = c.query_heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .conv0_width = c.conv0_width,
          .conv1_width = c.conv1_width,
          .rotary_dim = c.rotary_dim(),
          .rope_theta = layer.rope_theta,
          .window = layer.window,
          .bias = c.attention_bias,
          .conv_count = c.conv_count,
          .qk_mean = c.qk_mean,
          .value_shift = c.value_shift,
          .temperature = c.temperature};
}

GqaConfig gqa_config(const Config& c, const LayerConfig& layer) {
  return {.query_heads = c.query_heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .rotary_dim = c.rotary_dim(),
          .rope_theta = layer.rope_theta,
          .window = layer.window,
          .bias = c.attention_bias};
}

MlaConfig mla_config(const Config& c, const LayerConfig& layer) {
  return {.heads = c.query_heads,
          .q_rank = c.mla.q_rank,
          .kv_rank = c.mla.kv_rank,
          .nope_dim = c.mla.nope_dim,
          .rope_dim = c.mla.rope_dim,
          .value_dim = c.mla.value_dim,
          .rope_theta = layer.rope_theta,
          .window = layer.window,
          .bias = c.attention_bias};
}

}  // namespace

std::unique_ptr<AttentionLayer> make_attention(const Config& c, const LayerConfig& layer,
                                               const ParameterStore& store,
                                               const std::string& prefix) {
  switch (c.attention) {
    case AttentionType::cca:
      return std::make_unique<CcaAttention>(cca_config(c, layer), store, prefix);
    case AttentionType::mha:
    case AttentionType::gqa:
      return std::make_unique<GqaAttention>(gqa_config(c, layer), store, prefix);
    case AttentionType::mla:
      return std::make_unique<MlaAttention>(mla_config(c, layer), store, prefix);
  }
  TEPHRA_ASSERT(false, "every kind of attention has a layer");
}

LayerStateSpec attention_state(const Config& c, const LayerConfig& layer) {
  switch (c.attention) {
    case AttentionType::cca:
      return CcaAttention::state_spec(cca_config(c, layer));
    case AttentionType::mha:
    case AttentionType::gqa:
      return GqaAttention::state_spec(gqa_config(c, layer));
    case AttentionType::mla:
      return MlaAttention::state_spec(mla_config(c, layer));
  }
  TEPHRA_ASSERT(false, "every kind of attention has a state");
}

}  // namespace tephra::zaya1

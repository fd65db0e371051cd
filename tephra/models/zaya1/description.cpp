// SPDX-License-Identifier: Apache-2.0
// What the layers of a config are, in words.
#include "tephra/models/zaya1/config.h"

namespace tephra::zaya1 {
namespace {

std::string attention_text(const Config& c) {
  if (c.attention == AttentionType::mla) {
    const MlaDims& m = c.mla;
    return format("{} heads, queries {} + {} wide, values {}, latents {} (queries: {})",
                  c.query_heads, m.nope_dim, m.rope_dim, m.value_dim, m.kv_rank,
                  m.q_rank > 0 ? format("{}", m.q_rank) : "none");
  }
  std::string text =
      format("{} query and {} key/value heads of {}", c.query_heads, c.kv_heads, c.head_dim);
  if (c.attention != AttentionType::cca) return text;
  text += c.conv_count == 1 ? ", 1 convolution" : format(", {} convolutions", c.conv_count);
  text += c.qk_mean ? ", q/k mean" : ", no q/k mean";
  text += c.value_shift ? ", value shift" : ", no value shift";
  constexpr const char* kNames[] = {"linear", "exp", "no"};
  return text + format(", {} temperature", kNames[static_cast<size_t>(c.temperature)]);
}

}  // namespace

LayerKinds layer_kinds(const Config& c) {
  return {.attention = to_text(c.attention),
          .attention_text = attention_text(c),
          .mlp = to_text(c.mlp),
          .mlp_text = c.mlp == MlpType::dense ? format("SwiGLU of {}", c.dense_hidden)
                                              : format("{} experts of {}, one per token",
                                                       c.num_experts, c.expert_hidden)};
}

}  // namespace tephra::zaya1

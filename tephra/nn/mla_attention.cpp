// SPDX-License-Identifier: Apache-2.0
// Shapes: N tokens, H stream width, Q = heads * (nope + rope width), L latent width, R rope width.
#include "tephra/nn/mla_attention.h"

#include <cmath>

#include "tephra/autograd/variable.h"
#include "tephra/ops/attention.h"
#include "tephra/ops/copy_rows.h"
#include "tephra/ops/latent_decode.h"
#include "tephra/ops/latent_heads.h"
#include "tephra/ops/linear.h"
#include "tephra/ops/rms_norm.h"
#include "tephra/ops/rope.h"

namespace tephra {
namespace {

constexpr double kLatentNormEps = 1e-6;  // DeepSeek's, whatever the model's other norms have

}  // namespace

MlaAttention::MlaAttention(const MlaConfig& config, const ParameterStore& store,
                           const std::string& prefix)
    : config_(config),
      latent_norm_(store[prefix + "kv_a_layernorm.weight"]),
      latent_expand_(store[prefix + "kv_b_proj.weight"]),
      out_weight_(store.weight(prefix + "o_proj.weight")) {
  const bool direct = config.q_rank == 0;
  const std::string queries = prefix + (direct ? "q_proj" : "q_a_proj");
  const std::string latent = prefix + "kv_a_proj_with_mqa";
  in_weights_ = {store.weight(queries + ".weight"), store.weight(latent + ".weight")};
  if (!direct) {
    q_norm_ = store[prefix + "q_a_layernorm.weight"];
    q_expand_ = store.weight(prefix + "q_b_proj.weight");
  }
  if (config.bias) {
    in_biases_ = {direct ? Tensor() : store[queries + ".bias"], store[latent + ".bias"]};
    out_bias_ = store[prefix + "o_proj.bias"];
  }
}

LayerStateSpec MlaAttention::state_spec(const MlaConfig& config) {
  return {.kv_width = config.kv_rank + config.rope_dim,
          .values_in_keys = true,
          .window = config.window};
}

double MlaAttention::scale() const {
  return 1 / std::sqrt(static_cast<double>(config_.query_dim()));
}

Tensor MlaAttention::attend_expanded(const Tensor& q_NQ, const Tensor& c_NL, const Tensor& r_NR,
                                     const LayerContext& context) const {
  const auto [k, v] =
      latent_heads(linear(c_NL, latent_expand_), r_NR, config_.heads, config_.nope_dim);
  return attention(q_NQ, k, v, context.ranges, config_.query_dim(), scale()).o;
}

Tensor MlaAttention::attend_latents(const Tensor& q_NQ, const Tensor& c_NL, const Tensor& r_NR,
                                    const LayerContext& context) const {
  const int64_t L = config_.kv_rank, R = config_.rope_dim;
  const Tensor& cache = context.state->k;  // [rows, L + R]
  const Tensor latents = cache.column_view(0, L);
  copy_rows(latents, *context.write_row_N, c_NL);
  copy_rows(cache.column_view(L, L + R), *context.write_row_N, r_NR);

  const Tensor q = absorb_queries(q_NQ, latent_expand_, config_.heads, config_.nope_dim);
  const Tensor o = attention(q, cache, latents, context.ranges, L + R, scale()).o;
  return expand_values(o, latent_expand_, config_.heads, config_.nope_dim);
}

Tensor MlaAttention::forward(const Tensor& h_NH, const LayerContext& context) const {
  const int64_t L = config_.kv_rank, R = config_.rope_dim;
  const Tensor& position_N = context.segments.position_N;
  const Tensor in = linear(h_NH, in_weights_, in_biases_);  // queries or their latent, L, R
  const int64_t q_end = in.cols() - L - R;

  Tensor q_NQ = slice_columns(in, 0, q_end);
  if (q_expand_) q_NQ = linear(rms_norm(q_NQ, q_norm_, kLatentNormEps), q_expand_);
  q_NQ = rope(q_NQ, position_N,
              {.head_dim = config_.query_dim(),
               .rotary_dim = R,
               .theta = config_.rope_theta,
               .first = config_.nope_dim,
               .interleaved = true});

  const Tensor c_NL = rms_norm(slice_columns(in, q_end, q_end + L), latent_norm_, kLatentNormEps);
  const Tensor r_NR = rope(slice_columns(in, q_end + L, q_end + L + R), position_N,
                           {.head_dim = R,
                            .rotary_dim = R,
                            .theta = config_.rope_theta,
                            .first = 0,
                            .interleaved = true});

  const Tensor o = context.state ? attend_latents(q_NQ, c_NL, r_NR, context)
                                 : attend_expanded(q_NQ, c_NL, r_NR, context);
  if (context.announce_next) (*context.announce_next)();
  return linear(o, out_weight_, out_bias_);
}

}  // namespace tephra

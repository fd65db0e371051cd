// SPDX-License-Identifier: Apache-2.0
// ZAYA1's hyper-parameters, read from the native or the legacy config.json (docs/models/zaya1.md).
#pragma once

#include <string>
#include <vector>

#include "tephra/autograd/parameter.h"
#include "tephra/base/json.h"
#include "tephra/models/model.h"
#include "tephra/models/weights.h"
#include "tephra/nn/experts.h"
#include "tephra/ops/qk_norm.h"

namespace tephra::zaya1 {

struct LayerConfig {
  int64_t window = 0;  // keys seen, the current one included; 0: all
  double rope_theta = 5e6;

  bool operator==(const LayerConfig&) const = default;
};

enum class AttentionType { cca, mha, gqa, mla };
enum class MlpType { moe, dense };

std::string to_text(AttentionType type);
std::string to_text(MlpType type);

// The widths of multi-head latent attention; 0 with any other.
struct MlaDims {
  int64_t q_rank = 0;     // of the queries' latent; 0: they are projected directly
  int64_t kv_rank = 0;    // of the keys' and values' latent
  int64_t nope_dim = 0;   // of a head: without position ...
  int64_t rope_dim = 0;   // ... and rotated
  int64_t value_dim = 0;  // of a head

  bool operator==(const MlaDims&) const = default;
};

struct Config {
  int64_t vocab_size = 262272;
  int64_t hidden = 2048;
  int64_t num_layers = 40;
  int64_t query_heads = 8;
  int64_t kv_heads = 2;
  int64_t head_dim = 128;
  int64_t expert_hidden = 2048;  // one side of the SwiGLU
  int64_t num_experts = 16;
  int64_t router_hidden = 256;
  int64_t conv0_width = 2;  // depthwise
  int64_t conv1_width = 2;  // within a head
  int64_t max_positions = 131072;
  double norm_eps = 1e-5;
  double partial_rotary = 0.5;
  bool attention_bias = false;
  bool lm_head_bias = false;
  bool tied_embedding = true;
  double init_std = 0.02;
  SkipRule skip_rule = SkipRule::zero;
  bool pad_row_gets_no_input_gradient = false;  // transformers' padding_idx; off for training
  int64_t pad_id = 0, bos_id = 2;
  std::vector<int64_t> eos_ids = {106};
  std::vector<LayerConfig> layers;

  // Where it may differ from the published architecture (config_variants.cpp).
  AttentionType attention = AttentionType::cca;
  int64_t conv_count = 2;  // of CCA; 1: the depthwise one, 0: none
  bool qk_mean = true;
  bool value_shift = true;
  Temperature temperature = Temperature::linear;
  MlaDims mla;
  MlpType mlp = MlpType::moe;
  int64_t dense_hidden = 0;  // one side of the dense SwiGLU; 0 with experts

  int64_t conv_channels() const { return (query_heads + kv_heads) * head_dim; }
  int64_t rotary_dim() const { return static_cast<int64_t>(partial_rotary * double(head_dim)); }
  int64_t delayed_width() const { return kv_heads * head_dim / 2; }

  bool operator==(const Config&) const = default;
};

// The layout of the original release: alternating half-layers, other names.
bool is_legacy(const Json& config);
// Either layout; Fault::data naming key, expected and got.
Config parse_config(const Json& config, const std::string& where);
// As transformers writes it; parses back to the same Config.
Json native_config(const Config& config);

std::vector<ParameterSpec> parameters(const Config& config);
ModelFigures figures(const Config& config, int64_t context);
// For people: the kinds of its layers and their sizes.
LayerKinds layer_kinds(const Config& config);

// Where each parameter comes from in `folder` (native, legacy or with FP8 experts).
WeightPlan weight_plan(const TensorFolder& folder, const Config& config, bool legacy);

// Copies the tensors of `folder` into `store`. A tensor that is missing, unknown, or of a wrong
// shape or dtype is a Fault::data that names it.
void load_weights(const TensorFolder& folder, const Config& config, bool legacy,
                  ParameterStore& store);
// The same by a plan that is already made.
void load_weights(const TensorFolder& folder, const Config& config, WeightPlan plan,
                  ParameterStore& store);

// zaya1-8b and zaya1-74b as published, and a tiny one for tests and demonstrations.
Config preset_8b();
Config preset_74b();
Config preset_tiny();

}  // namespace tephra::zaya1

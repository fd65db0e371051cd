// SPDX-License-Identifier: Apache-2.0
// A training run in one TOML file. Every key is declared once, in the `fields` functions of
// config.cpp, which read it, write the resolved config of a run, and make docs/config.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tephra/base/config.h"
#include "tephra/base/json.h"
#include "tephra/data/source_config.h"

namespace tephra {

// A preset or a config.json, and what is changed in it. The keys are those of config.json.
struct ModelSettings {
  std::optional<std::string> preset, config;
  std::optional<int64_t> vocab_size, hidden_size, num_hidden_layers;
  std::optional<int64_t> num_attention_heads, num_key_value_heads, head_dim;
  std::optional<int64_t> num_experts, moe_intermediate_size, router_hidden_size;
  std::optional<int64_t> cca_time0, cca_time1, max_position_embeddings;
  std::optional<double> initializer_range, partial_rotary_factor, rope_theta;
  std::optional<std::string> attention_type, mlp_type, cca_temperature;
  std::optional<int64_t> cca_conv_count, intermediate_size;
  std::optional<bool> cca_qk_mean, cca_value_shift;
  std::optional<int64_t> q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
  std::string dtype = "f32";

  void fields(ConfigFields& f);
};

struct DataSettings {
  std::string tokenizer = "bytes";
  std::string chat_template = "tokenizer";
  std::vector<SourceConfig> sources;

  void fields(ConfigFields& f);
};

struct MixtureSettings {
  std::string source;
  double weight = 1;

  void fields(ConfigFields& f);
};

struct PhaseSettings {
  std::string name = "pretrain";
  std::optional<int64_t> steps, tokens;  // one of them
  int64_t context = 1024;
  std::optional<double> rope_theta;
  int64_t batch_tokens = 8192;
  std::optional<int64_t> batch_ramp_from;
  int64_t batch_ramp_steps = 0;
  double lr = 3e-3;
  double start_lr = 0, end_lr = 0;  // times lr
  int64_t warmup_steps = 0;
  std::string schedule = "wsd";
  std::string decay = "linear";
  std::optional<int64_t> decay_steps;
  std::vector<MixtureSettings> mixture;

  void fields(ConfigFields& f);
};

// An exception for parameters by name.
struct RuleSettings {
  std::string names;
  std::optional<std::string> rule;
  std::optional<double> rate;
  std::optional<bool> decays;

  void fields(ConfigFields& f);
};

struct OptimizerSettings {
  std::string matrices = "muon";
  double weight_decay = 0.1;
  double clip_norm = 1.0;
  double adamw_beta1 = 0.9, adamw_beta2 = 0.95, adamw_eps = 1e-8;
  double muon_momentum = 0.95, muon_scale = 0.2;
  bool muon_nesterov = true;
  int64_t newton_schulz_steps = 5;
  std::string newton_schulz_dtype = "f32";
  std::vector<RuleSettings> rules;

  void fields(ConfigFields& f);
};

struct BalancingSettings {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;

  void fields(ConfigFields& f);
};

struct StepSettings {
  int64_t micro_tokens = 8192;
  std::vector<std::string> recompute;

  void fields(ConfigFields& f);
};

struct CheckpointSettings {
  int64_t every_steps = 1000;
  int64_t keep_last = 2;
  int64_t keep_every = 0;
  std::string on_failure = "continue";

  void fields(ConfigFields& f);
};

struct ValidationSettings {
  int64_t every_steps = 0;
  int64_t samples = 16;

  void fields(ConfigFields& f);
};

// Accuracy on held-out tasks of environments.
struct EvaluationSettings {
  int64_t every_steps = 0;
  int64_t tasks = 0;
  std::vector<std::string> environments;
  int64_t seed = 0;

  void fields(ConfigFields& f);
};

// What happens when a loss jumps or a gradient is not finite.
struct GuardSettings {
  double spike = 0;  // standard deviations over the mean of the window; 0: off
  int64_t window = 128;
  std::string action = "skip";
  int64_t rollback_steps = 4;
  int64_t most_skips = 20;

  void fields(ConfigFields& f);
};

struct LogSettings {
  int64_t every_steps = 1;
  int64_t load_every_steps = 50;
  bool tensorboard = true;

  void fields(ConfigFields& f);
};

struct RunConfig {
  std::string name = "run";
  int64_t seed = 1;
  ModelSettings model;
  DataSettings data;
  std::vector<PhaseSettings> phases = {{}};
  OptimizerSettings optimizer;
  BalancingSettings balancing;
  StepSettings step;
  CheckpointSettings checkpoints;
  ValidationSettings validation;
  EvaluationSettings evaluation;
  GuardSettings guard;
  LogSettings log;

  void fields(ConfigFields& f);
};

// The native config.json that the settings ask for; `vocab_size` is what the tokenizer needs.
Json model_config(const ModelSettings& settings, int64_t vocab_size);

// docs/config.md.
std::string config_reference();

}  // namespace tephra

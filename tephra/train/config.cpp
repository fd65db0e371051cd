// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/config.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/models/model.h"

namespace tephra {

void ModelSettings::fields(ConfigFields& f) {
  const ConfigLimits size{.min = 1};
  f.read("preset", preset, "start from a published config: zaya1-8b, zaya1-74b, tiny");
  f.read("config", config, "start from this config.json; without either, from ZAYA1-8B's values");
  f.read("vocab_size", vocab_size, "rows of the embedding; default: the tokenizer's, padded to 128",
         size);
  f.read("hidden_size", hidden_size, "width of the stream", size);
  f.read("num_hidden_layers", num_hidden_layers, "layers", size);
  f.read("num_attention_heads", num_attention_heads, "query heads", size);
  f.read("num_key_value_heads", num_key_value_heads, "key and value heads", size);
  f.read("head_dim", head_dim, "width of a head", size);
  f.read("num_experts", num_experts, "experts of a layer", size);
  f.read("moe_intermediate_size", moe_intermediate_size, "inner width of an expert", size);
  f.read("router_hidden_size", router_hidden_size, "width of the router", size);
  f.read("cca_time0", cca_time0, "taps of the depthwise convolution", size);
  f.read("cca_time1", cca_time1, "taps of the convolution within heads", size);
  f.read("max_position_embeddings", max_position_embeddings, "longest context", size);
  f.read("initializer_range", initializer_range, "standard deviation of the first weights",
         {.above = 0});
  f.read("partial_rotary_factor", partial_rotary_factor, "share of a head that is rotated",
         {.above = 0, .max = 1});
  f.read("rope_theta", rope_theta, "RoPE base of the full layers; a phase can set its own",
         {.above = 0});
  f.read("attention_type", attention_type, "the attention of every layer",
         {.choices = {"cca", "mha", "gqa", "mla"}});
  f.read("cca_conv_count", cca_conv_count, "convolutions of CCA", {.min = 0, .max = 2});
  f.read("cca_qk_mean", cca_qk_mean, "add the mean of queries and keys");
  f.read("cca_value_shift", cca_value_shift, "half of each value from the token before");
  f.read("cca_temperature", cca_temperature, "form of the key temperature",
         {.choices = {"linear", "exp", "none"}});
  f.read("q_lora_rank", q_lora_rank, "MLA: rank of the queries; 0: full", {.min = 0});
  f.read("kv_lora_rank", kv_lora_rank, "MLA: rank of keys and values", size);
  f.read("qk_nope_head_dim", qk_nope_head_dim, "MLA: width of a head without positions", size);
  f.read("qk_rope_head_dim", qk_rope_head_dim, "MLA: width of a head with positions", size);
  f.read("v_head_dim", v_head_dim, "MLA: width of a value head", size);
  f.read("mlp_type", mlp_type, "experts, or one dense network", {.choices = {"moe", "dense"}});
  f.read("intermediate_size", intermediate_size, "inner width of the dense network", size);
  f.read("dtype", dtype, "of weights and activations; masters and gradients are f32",
         {.choices = {"f32", "bf16"}});
  f.check(!(preset && config), "config", "give either a preset or a config, not both");
}

void DataSettings::fields(ConfigFields& f) {
  f.read("tokenizer", tokenizer,
         "folder with a tokenizer.json, or \"bytes\": one token a byte and a few special ones");
  f.read(
      "chat_template", chat_template,
      "what writes conversations, and chats with the model: \"tokenizer\": the one in the "
      "tokenizer's folder; \"chatml\"; \"tasks\": the question alone, for models that learnt from "
      "the built-in tasks; or a .jinja file");
  f.list("sources", sources, "what can be read; default: one source of all environments");
}

void MixtureSettings::fields(ConfigFields& f) {
  f.read("source", source, "name of a source", {.required = true});
  f.read("weight", weight, "share of the tokens, before normalisation", {.above = 0});
}

void PhaseSettings::fields(ConfigFields& f) {
  f.read("name", name, "in the log");
  f.read("steps", steps, "length of the phase", {.min = 1});
  f.read("tokens", tokens, "the same in tokens; give one of them", {.min = 1, .max = 1e18});
  f.read("context", context, "tokens of a sample", {.min = 2});
  f.read("rope_theta", rope_theta, "RoPE base of the full layers; default: stays as it is",
         {.above = 0});
  f.read("batch_tokens", batch_tokens, "tokens of a step", {.min = 2, .max = 1e12});
  f.read("batch_ramp_from", batch_ramp_from, "tokens of the first step of the phase", {.min = 2});
  f.read("batch_ramp_steps", batch_ramp_steps, "steps until batch_tokens",
         {.min = 0, .max = 1'000'000});
  f.read("lr", lr, "peak learning rate", {.above = 0});
  f.read("start_lr", start_lr, "where the warm-up starts, times lr", {.min = 0});
  f.read("end_lr", end_lr, "where the decay ends, times lr", {.min = 0});
  f.read("warmup_steps", warmup_steps, "steps of linear warm-up", {.min = 0});
  f.read("schedule", schedule,
         "wsd: warm up, hold, decay over the last decay_steps; cosine: decay all the way; "
         "constant: no decay",
         {.choices = {"wsd", "cosine", "constant"}});
  f.read("decay", decay, "shape of wsd's decay", {.choices = {"linear", "cosine", "sqrt"}});
  f.read("decay_steps", decay_steps, "length of wsd's decay; default: a fifth of the phase",
         {.min = 0});
  f.list("mixture", mixture, "sources and weights; default: every source, equally");
  f.check(steps.has_value() != tokens.has_value(), "steps",
          "expected either steps or tokens for each phase");
  f.check(batch_tokens % context == 0, "batch_tokens",
          format("expected a multiple of the context {}, got {}", context, batch_tokens));
  f.check(batch_ramp_from.value_or(context) % context == 0, "batch_ramp_from",
          format("expected a multiple of the context {}", context));
  f.check(batch_ramp_from.value_or(batch_tokens) <= batch_tokens, "batch_ramp_from",
          "expected no more than batch_tokens");
  f.check(batch_ramp_from.has_value() == (batch_ramp_steps > 0), "batch_ramp_steps",
          "batch_ramp_from and batch_ramp_steps need each other: where the ramp starts, and how "
          "long it is");
}

void RuleSettings::fields(ConfigFields& f) {
  f.read("names", names, "parameters, as in \"*.gate.*\"; `*` stands for any text",
         {.required = true});
  f.read("rule", rule, "what updates them; default: what their kind says",
         {.choices = {"muon", "adamw", "frozen"}});
  f.read("rate", rate, "times the learning rate; default: 1", {.min = 0});
  f.read("decays", decays, "whether weight decay acts on them; default: with two or more axes");
}

void OptimizerSettings::fields(ConfigFields& f) {
  f.read("matrices", matrices, "what updates projections and experts",
         {.choices = {"muon", "adamw"}});
  f.read("weight_decay", weight_decay, "of parameters with two or more axes", {.min = 0});
  f.read("clip_norm", clip_norm, "largest global gradient norm; 0: none", {.min = 0});
  f.read("adamw_beta1", adamw_beta1, "AdamW", {.min = 0, .max = 0.99999});
  f.read("adamw_beta2", adamw_beta2, "AdamW", {.min = 0, .max = 0.999999});
  f.read("adamw_eps", adamw_eps, "AdamW", {.above = 0});
  f.read("muon_momentum", muon_momentum, "Muon", {.min = 0, .max = 0.99999});
  f.read("muon_nesterov", muon_nesterov, "Muon");
  f.read("muon_scale", muon_scale, "of Muon's update, so that both rates match in RMS",
         {.above = 0});
  f.read("newton_schulz_steps", newton_schulz_steps, "Muon", {.min = 1, .max = 20});
  f.read("newton_schulz_dtype", newton_schulz_dtype, "Muon", {.choices = {"f32", "bf16"}});
  f.list("rules", rules, "exceptions by name, of which later ones win; --plan shows what results");
}

void BalancingSettings::fields(ConfigFields& f) {
  f.read("lr", lr, "of the AdamW that moves the balancing biases; 0: they stay", {.min = 0});
  f.read("beta1", beta1, "AdamW", {.min = 0, .max = 0.99999});
  f.read("beta2", beta2, "AdamW", {.min = 0, .max = 0.999999});
  f.read("eps", eps,
         "AdamW; errors of the load far below it move a bias in proportion, not by a whole step",
         {.above = 0});
}

void StepSettings::fields(ConfigFields& f) {
  f.read("micro_tokens", micro_tokens,
         "tokens of one forward and backward pass; a step adds up as many as it needs",
         {.min = 2, .max = 1e12});
  f.read("recompute", recompute,
         "op classes that are computed again in the backward pass, for memory: norm, activation, "
         "convolution, qk, router, dispatch, experts, linear, attention, embedding, loss, or all");
}

void CheckpointSettings::fields(ConfigFields& f) {
  f.read("every_steps", every_steps, "0: only the last step", {.min = 0});
  f.read("keep_last", keep_last, "newest ones that are kept", {.min = 1});
  f.read("keep_every", keep_every, "and every step that this divides; 0: none", {.min = 0});
  f.read("on_failure", on_failure, "when one cannot be written: train on and try again, or stop",
         {.choices = {"continue", "stop"}});
}

void ValidationSettings::fields(ConfigFields& f) {
  f.read("every_steps", every_steps, "0: only after the last step", {.min = 0});
  f.read("samples", samples, "of the context of the phase; 0: no validation", {.min = 0});
}

void EvaluationSettings::fields(ConfigFields& f) {
  f.read("every_steps", every_steps, "0: only after the last step", {.min = 0});
  f.read("tasks", tasks,
         "held-out tasks of each kind and level, answered greedily; 0: no "
         "evaluation",
         {.min = 0});
  f.read("environments", environments,
         "kinds and levels, as in [\"addition:1-3\", \"sorting:2\"]; none: those that the data "
         "sources train on");
  f.read("seed", seed, "of the tasks, which are the same each time and those of tephra eval --seed",
         {.min = 0});
}

void GuardSettings::fields(ConfigFields& f) {
  f.read("spike", spike, "a loss so many standard deviations above its window's mean; 0: never",
         {.min = 0});
  f.read("window", window, "steps that the mean is over", {.min = 8});
  f.read("action", action,
         "what follows a spike or a gradient that is not finite: skip the step, or go back to the "
         "last checkpoint and leave its data out",
         {.choices = {"skip", "rollback"}});
  f.read("rollback_steps", rollback_steps, "steps before the bad one whose data is left out, too",
         {.min = 0});
  f.read("most_skips", most_skips, "more than that within a window end the run", {.min = 0});
}

void LogSettings::fields(ConfigFields& f) {
  f.read("every_steps", every_steps, "a line of metrics.jsonl", {.min = 1});
  f.read("load_every_steps", load_every_steps, "with the load of every expert", {.min = 1});
  f.read("tensorboard", tensorboard, "write event files, too");
}

void RunConfig::fields(ConfigFields& f) {
  f.read("name", name, "of the run");
  f.read("seed", seed, "of weights and data", {.min = 0});
  f.table("model", model, "the architecture");
  f.table("data", data, "where tokens come from");
  f.list("phases", phases, "one after another");
  f.table("optimizer", optimizer, "Muon and AdamW");
  f.table("balancing", balancing, "of the experts' load");
  f.table("step", step, "how a step is computed");
  f.table("checkpoints", checkpoints, "what a run can be resumed from");
  f.table("validation", validation, "loss on held-out data");
  f.table("evaluation", evaluation, "accuracy on held-out tasks");
  f.table("guard", guard, "against bad steps");
  f.table("log", log, "metrics.jsonl and TensorBoard");
}

namespace {

template <class T>
void put(Json& config, const char* key, const std::optional<T>& value) {
  if (value) config[key] = Json(*value);
}

void put_rope(Json& config, const ModelSettings& s) {
  if (!s.rope_theta && !s.partial_rotary_factor) return;
  for (const char* kind : {"hybrid", "hybrid_sliding"}) {
    Json& rope = config["rope_parameters"][kind];
    put(rope, "partial_rotary_factor", s.partial_rotary_factor);
    rope["rope_type"] = "default";
  }
  put(config["rope_parameters"]["hybrid"], "rope_theta", s.rope_theta);
}

Json base_config(const ModelSettings& s) {
  if (s.preset) return preset_config(*s.preset);
  if (s.config) return Json::parse(read_file(*s.config), *s.config);
  Json config;
  config["model_type"] = "zaya";
  return config;
}

// What is wrong with values of the TOML file is a mistake of its writer, not bad content.
Json native_of(const Json& config, const ModelSettings& s) {
  const std::string where = s.config.value_or("[model]");
  try {
    return model_kind(config, where).native_config(config, where);
  } catch (const Error& error) {
    if (s.config || error.fault() != Fault::data) throw;
    throw Error(Fault::usage, error.what(), error.hint());
  }
}

}  // namespace

Json model_config(const ModelSettings& s, int64_t vocab_size) {
  Json config = base_config(s);
  if (s.num_hidden_layers && config.find("layer_types")) config["layer_types"] = Json();
  config["vocab_size"] = s.vocab_size.value_or(vocab_size);
  put(config, "hidden_size", s.hidden_size);
  put(config, "num_hidden_layers", s.num_hidden_layers);
  put(config, "num_attention_heads", s.num_attention_heads);
  put(config, "num_key_value_heads", s.num_key_value_heads);
  put(config, "head_dim", s.head_dim);
  put(config, "num_experts", s.num_experts);
  put(config, "moe_intermediate_size", s.moe_intermediate_size);
  put(config, "router_hidden_size", s.router_hidden_size);
  put(config, "cca_time0", s.cca_time0);
  put(config, "cca_time1", s.cca_time1);
  put(config, "max_position_embeddings", s.max_position_embeddings);
  put(config, "initializer_range", s.initializer_range);
  put(config, "attention_type", s.attention_type);
  put(config, "cca_conv_count", s.cca_conv_count);
  put(config, "cca_qk_mean", s.cca_qk_mean);
  put(config, "cca_value_shift", s.cca_value_shift);
  put(config, "cca_temperature", s.cca_temperature);
  put(config, "q_lora_rank", s.q_lora_rank);
  put(config, "kv_lora_rank", s.kv_lora_rank);
  put(config, "qk_nope_head_dim", s.qk_nope_head_dim);
  put(config, "qk_rope_head_dim", s.qk_rope_head_dim);
  put(config, "v_head_dim", s.v_head_dim);
  put(config, "mlp_type", s.mlp_type);
  put(config, "intermediate_size", s.intermediate_size);
  put_rope(config, s);
  Json native = native_of(config, s);
  native["dtype"] = s.dtype == "bf16" ? "bfloat16" : "float32";
  return native;
}

std::string config_reference() {
  return "# Every key of a training config\n\n"
         "Made by `tephra train --config-reference` from the declarations that read the file.\n"
         "`--set a.b=c` overrides a key of the file. Keys of a list (`[[phases]]`) are shown with "
         "`[]`.\n\n" +
         config_markdown(describe_config<RunConfig>());
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/train_subject.h"

#include <algorithm>

#include "tephra/base/parallel.h"
#include "tephra/core/rng.h"
#include "tephra/text/byte_tokenizer.h"
#include "tephra/text/tokenizer.h"
#include "tephra/train/trainer.h"

namespace tephra {
namespace {

constexpr const char* kWhere = "[model]";

int64_t vocabulary_of(const RunConfig& config) {
  if (config.model.vocab_size) return *config.model.vocab_size;
  const std::string& name = config.data.tokenizer;
  const Tokenizer tokens =
      name == "bytes" ? Tokenizer::parse(byte_tokenizer_json(), name) : Tokenizer::load(name);
  return ceil_div(tokens.vocab_size(), 128) * 128;
}

std::unique_ptr<Model> make_model(const RunConfig& config, const Json& model_json) {
  const DType dtype = config.model.dtype == "bf16" ? DType::bf16 : DType::f32;
  auto model = model_kind(model_json, kWhere)
                   .create(model_json, kWhere, {.dtype = dtype, .with_gradients = true});
  model->parameters().initialise(static_cast<uint64_t>(config.seed));
  return model;
}

// Micro-batches of whole documents, as a run would have them.
std::vector<MicroBatch> random_batch(const Model& model, const RunConfig& config, int64_t tokens,
                                     int64_t context) {
  const int64_t documents = tokens / context;
  const int64_t together = std::max<int64_t>(1, config.step.micro_tokens / context);
  const auto vocabulary = static_cast<uint32_t>(model.tokens().vocab_size);
  std::vector<MicroBatch> parts;
  for (int64_t first = 0; first < documents; first += together) {
    Tensor ids({std::min(together, documents - first), context}, DType::i32);
    for (int64_t i = 0; i < ids.numel(); ++i) {
      const auto index = static_cast<uint64_t>(first * context + i);
      ids.set(i, philox({2, 0, 0}, index)[0] % vocabulary);
    }
    parts.push_back(next_token_batch(ids, model.tokens(), "random tokens"));
  }
  return parts;
}

}  // namespace

Json bench_model_json(const RunConfig& config) {
  return model_config(config.model, vocabulary_of(config));
}

int64_t whole_documents(const RunConfig& config, int64_t tokens) {
  const int64_t context = config.phases.front().context;
  return tokens < context ? tokens : tokens / context * context;
}

RunConfig train_bench_config() {
  RunConfig c;
  c.name = "60m";
  c.model.vocab_size = 8192;
  c.model.hidden_size = 512;
  c.model.num_hidden_layers = 8;
  c.model.num_attention_heads = 4;
  c.model.num_key_value_heads = 2;
  c.model.head_dim = 64;
  c.model.num_experts = 8;
  c.model.moe_intermediate_size = 512;
  c.model.router_hidden_size = 256;
  c.model.max_position_embeddings = 8192;
  c.model.rope_theta = 1e4;
  c.phases.front().context = 2048;
  c.step.micro_tokens = 8192;
  return c;
}

TrainSubject::TrainSubject(const RunConfig& config, int64_t tokens)
    : config_(config),
      model_(make_model(config, bench_model_json(config))),
      optimizer_(model_->parameters(),
                 optimizer_rules(model_->parameters().specs(), config.optimizer),
                 optimizer_options(config.optimizer)),
      recompute_(recompute_of(config.step.recompute)) {
  set_tokens(tokens);
}

void TrainSubject::set_tokens(int64_t tokens) {
  tokens_ = tokens;
  context_ = std::min(config_.phases.front().context, tokens);
  batch_ = random_batch(*model_, config_, tokens, context_);
  const Json json = model_->config_json();
  figures_ = model_kind(json, kWhere).figures(json, kWhere, context_);
}

void TrainSubject::forward_backward() {
  accumulate_gradients(*model_, batch_, {.recompute = recompute_});
}

// With a rate of nothing: every pass finds the same weights.
StepReport TrainSubject::optimizer_step() { return optimizer_.step(0); }

StepWork TrainSubject::work() const {
  const auto tokens = static_cast<double>(tokens_);
  return {tokens, tokens * figures_.train_flops_per_token,
          tokens * 6 * static_cast<double>(figures_.active_without_embedding)};
}

}  // namespace tephra

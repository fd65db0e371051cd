// SPDX-License-Identifier: Apache-2.0
// The rows of the whole model in `tephra bench ops`: a training step without the optimizer, of a
// ZAYA1 of the size that people train on a CPU.
#include <memory>

#include "tephra/autograd/tape.h"
#include "tephra/cli/bench_ops.h"
#include "tephra/models/zaya1/model.h"

namespace tephra {
namespace {

zaya1::Config bench_config() {
  zaya1::Config c;
  c.vocab_size = 8192;
  c.hidden = 512;
  c.num_layers = 8;
  c.query_heads = 4;  // a latent half as wide as the stream, as in ZAYA1
  c.kv_heads = 2;
  c.head_dim = 64;
  c.expert_hidden = 512;
  c.num_experts = 8;
  c.router_hidden = 256;
  c.max_positions = 32768;
  c.layers.assign(8, {});
  return c;
}

// Made when it is first run: listing the benches must stay cheap.
struct Step {
  explicit Step(int64_t tokens)
      : model(bench_config(), {.with_gradients = true}),
        ids({tokens}, DType::i32),
        segments(Segments::batch(1, tokens)) {
    model.parameters().initialise(1);
    for (int64_t i = 0; i < tokens; ++i) {
      ids.set(i, double(philox({2, 0, 0}, static_cast<uint64_t>(i))[0] % 8192));
    }
  }

  void run() {
    model.parameters().clear_gradients();
    Tape tape;
    tape.backward(model.loss(model.forward(ids, segments), ids, 1.0 / double(ids.numel())));
  }

  zaya1::Zaya1 model;
  Tensor ids;
  Segments segments;
};

OpBench step_bench(int64_t tokens) {
  auto step = std::make_shared<std::unique_ptr<Step>>();
  return {.name = format("forward + backward, {} tokens", tokens),
          .run = [=](const Tensors&) -> Tensors {
            if (!*step) *step = std::make_unique<Step>(tokens);
            (*step)->run();
            return {};
          },
          .forward_flops =
              zaya1::figures(bench_config(), tokens).train_flops_per_token* double(tokens)};
}

}  // namespace

OpSpec model_bench_spec() {
  return {.name = "model",
          .cases = {},
          .benches = {step_bench(1024), step_bench(kBenchModelTokens), step_bench(4096)}};
}

std::vector<ParameterSpec> bench_model_parameters() { return zaya1::parameters(bench_config()); }

}  // namespace tephra

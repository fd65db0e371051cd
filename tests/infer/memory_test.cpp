// SPDX-License-Identifier: Apache-2.0
// What a training step keeps grows with the tokens, not with their square.
#include <gtest/gtest.h>

#include "tephra/autograd/tape.h"
#include "tephra/models/zaya1/model.h"

namespace tephra {
namespace {

zaya1::Config small_config() {
  zaya1::Config c;
  c.vocab_size = 512;
  c.hidden = 64;
  c.num_layers = 3;
  c.query_heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.expert_hidden = 64;
  c.num_experts = 4;
  c.router_hidden = 32;
  c.layers.assign(3, {});
  return c;
}

// Peak bytes of one forward and backward pass over a single document.
int64_t peak_of_step(zaya1::Zaya1& model, int64_t tokens, const Recompute& recompute = {}) {
  const Tensor ids = zeros({tokens}, DType::i32);
  const Segments segments = Segments::batch(1, tokens);
  model.parameters().clear_gradients();
  const int64_t before = memory_use()[kNumPurposes].bytes;
  reset_memory_peaks();
  Tape tape(recompute);
  tape.backward(model.loss(model.forward(ids, segments), ids, 1));
  return memory_use()[kNumPurposes].peak_bytes - before;
}

TEST(ActivationMemory, IsLinearInTheContext) {
  zaya1::Zaya1 model(small_config(), {.with_gradients = true});
  model.parameters().initialise(1);
  peak_of_step(model, 2048);  // first-time tables
  const double a = double(peak_of_step(model, 512));
  const double b = double(peak_of_step(model, 1024));
  const double c = double(peak_of_step(model, 2048));
  EXPECT_NEAR(b / a, 2, 0.15);
  EXPECT_NEAR(c / b, 2, 0.15);
}

TEST(ActivationMemory, ShrinksWhenOutputsAreRecomputed) {
  zaya1::Zaya1 model(small_config(), {.with_gradients = true});
  model.parameters().initialise(1);
  const int64_t kept = peak_of_step(model, 1024);
  const int64_t recomputed = peak_of_step(model, 1024, Recompute::everything());
  EXPECT_LT(double(recomputed), 0.8 * double(kept));
}

}  // namespace
}  // namespace tephra

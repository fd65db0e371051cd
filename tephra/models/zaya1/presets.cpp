// SPDX-License-Identifier: Apache-2.0
#include "tephra/models/zaya1/config.h"

namespace tephra::zaya1 {

Config preset_8b() {
  Config c;  // the defaults are its values
  c.layers.assign(40, {.window = 0, .rope_theta = 5e6});
  return c;
}

Config preset_74b() {
  Config c;
  c.hidden = 4096;
  c.num_layers = 60;
  c.query_heads = 16;
  c.expert_hidden = 4096;
  c.num_experts = 24;
  c.max_positions = 262144;
  c.eos_ids = {1};
  for (int l = 0; l < 60; ++l) {
    const bool slides = l % 2 == 0;
    c.layers.push_back({.window = slides ? 4097 : 0, .rope_theta = slides ? 1e4 : 5e6});
  }
  return c;
}

Config preset_tiny() {
  Config c;
  c.vocab_size = 512;
  c.hidden = 64;
  c.num_layers = 4;
  c.query_heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.expert_hidden = 128;
  c.num_experts = 8;
  c.router_hidden = 32;
  c.max_positions = 2048;
  c.eos_ids = {1};
  for (int l = 0; l < 4; ++l) {
    const bool slides = l % 2 == 1;
    c.layers.push_back({.window = slides ? 32 : 0, .rope_theta = slides ? 1e4 : 5e6});
  }
  return c;
}

}  // namespace tephra::zaya1

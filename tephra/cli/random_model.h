// SPDX-License-Identifier: Apache-2.0
// A model to measure or check when there is no folder of one: a preset with random weights.
#pragma once

#include "tephra/models/model.h"

namespace tephra {

// Whether this is no folder but the name of a preset.
bool is_preset(const std::string& model);

struct NamedModel {
  Json config;
  const ModelKind* kind = nullptr;
  std::unique_ptr<Model> model;
};

// The folder's model, or the preset's with weights drawn by their specs where it will run. `bits`,
// 8 or 4, are for a preset on a GPU or in f32: what can be quantised is, with codes that are drawn
// evenly (draw_packed), in the bytes of a real model; 0: nothing is.
NamedModel load_or_draw(const std::string& model, const LoadOptions& options, int64_t bits = 0);
// Fault::usage when `bits` are not for this model.
void check_bits(const std::string& model, int64_t bits);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Checks a model against reference data, or against itself. Every check keeps its worst tensor.
#pragma once

#include <string>
#include <vector>

#include "tephra/io/safetensors.h"
#include "tephra/models/model.h"

namespace tephra {

// Which of a check's figures its bound is on.
enum class Metric { absolute, relative, relative_norm, exact, rms };

std::string to_text(Metric metric);

struct Check {
  std::string name;
  Metric metric;
  double bound;
  double max_abs = 0;
  double max_rel = 0;  // by element against the largest reference value; for norms |a - b| / |b|
  std::string worst;   // the tensor (and place) that decided it
  bool pass = true;
};

struct VerifyReport {
  std::vector<Check> checks;
  std::vector<std::string> ignored;  // tensors of the file that no check reads
  std::vector<std::string> notes;    // for the reader; they decide nothing

  bool pass() const;
};

// Everything that `golden` (docs/formats/golden.md) holds. Gradients are checked when the model has
// them. A bf16 model is judged by its logits alone: their RMS distance may be at most 1.5 times
// that of the reference's own bf16 run.
VerifyReport verify_golden(Model& model, const SafetensorsFile& golden);

// Whether a reference is of one attention layer, and so holds its settings and weights itself.
bool is_attention_reference(const SafetensorsFile& golden);
// That layer (MHA, GQA or MLA): its output, its gradients, and token by token with a cache. In f32
// or f64.
VerifyReport verify_attention(const SafetensorsFile& golden, DType dtype, Device device = kCpu);

// Cached decoding against the full forward pass, chunks of tokens against single ones, packed
// documents against separate ones, and a rolled-back decoder against one that never went astray; on
// random tokens.
VerifyReport verify_itself(Model& model, int64_t tokens, uint64_t seed);

// The engine's own kernels for single tokens against the forward pass of training, on random
// tokens: the mean Kullback-Leibler divergence of the next token's probabilities, with the experts
// that the forward pass chose and, as a note, with those that the engine chooses. Nothing is
// checked where the model has no such kernels (Model::decode_step).
VerifyReport verify_engine(Model& model, int64_t tokens, uint64_t seed);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Small models in the shape that a decode step takes, and some sequences of theirs that go on by
// the ops or by the step.
#pragma once

#include <map>

#include "tephra/autograd/tape.h"
#include "tephra/base/parallel.h"
#include "tephra/core/rng.h"
#include "tephra/infer/paged_state.h"
#include "tephra/models/packed.h"
#include "tephra/models/zaya1/model.h"
#include "tests/support/difference.h"

namespace tephra::step_test {

inline constexpr Device kFirstGpu{Device::Kind::gpu, 0};
inline constexpr int64_t kStepBlock = 64;

inline zaya1::Config step_config(int64_t query_heads = 8) {
  zaya1::Config c;
  c.vocab_size = 512;
  c.hidden = 256;
  c.num_layers = 3;
  c.query_heads = query_heads;
  c.kv_heads = 2;
  c.expert_hidden = 512;
  c.num_experts = 4;
  c.max_positions = 20000;
  c.eos_ids = {1};
  c.layers = {{.window = 0, .rope_theta = 5e6},
              {.window = 100, .rope_theta = 1e4},
              {.window = 0, .rope_theta = 5e6}};
  return c;
}

// Weights large enough that experts differ and logits are apart; biases and scales that are not
// those of a start. Drawn in bf16 whatever a model computes in, so that all have the same.
inline Tensor step_value(ParameterSpec spec) {
  if (spec.kind == ParameterKind::buffer) {
    spec.init_last.reset();
    spec.init_std = 0.05;
  } else if (spec.kind == ParameterKind::vector) {
    spec.init_std = 0.2;
  } else {
    spec.init_std = 0.08;
  }
  const DType stored = spec.kind == ParameterKind::buffer ? DType::f32 : DType::bf16;
  Tensor value(spec.shape, stored);
  initialise(spec, 7, value);
  return value;
}

inline std::unique_ptr<zaya1::Zaya1> step_model(const zaya1::Config& config, Device device,
                                                DType dtype = DType::bf16) {
  auto model =
      std::make_unique<zaya1::Zaya1>(config, LoadOptions{.dtype = dtype, .device = device});
  ParameterStore& store = model->parameters();
  for (size_t i = 0; i < store.specs().size(); ++i) {
    copy_into(store.at(i), to_dtype(step_value(store.specs()[i]), store.at(i).dtype()));
  }
  return model;
}

// The same with quantised weights: as they are or, `written` out, in the model's dtype.
inline std::unique_ptr<zaya1::Zaya1> quantised_step_model(const zaya1::Config& config,
                                                          const Quantisation& quantisation,
                                                          Device device, DType dtype,
                                                          bool written = false) {
  std::vector<ParameterSpec> quantised;
  for (const ParameterSpec& spec : zaya1::parameters(config)) {
    if (spec.narrowing == Narrowing::quantised) quantised.push_back(spec);
  }
  const NamedWeights room = packed_room(quantised, quantisation, device);
  auto model = std::make_unique<zaya1::Zaya1>(
      config,
      LoadOptions{.dtype = dtype, .device = device, .weights = written ? NamedWeights{} : room});
  const ParameterStore& store = model->parameters();
  for (const ParameterSpec& spec : zaya1::parameters(config)) {
    const Tensor value = step_value(spec);
    if (spec.narrowing != Narrowing::quantised) {
      copy_into(store[spec.name], to_dtype(value, store[spec.name].dtype()));
      continue;
    }
    const PackedWeight packed = pack_weight(value, quantisation.of(spec.kind), /*search=*/false);
    copy_into(room.at(spec.name).packed().blocks(), packed.blocks());
    if (!written) continue;
    const Tensor wide(spec.shape, dtype);
    unpack_weight(packed, wide);
    copy_into(store[spec.name], wide);
  }
  return model;
}

inline std::vector<int32_t> step_tokens(int64_t count, uint32_t stream) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(philox({3, stream, 0}, static_cast<uint64_t>(i))[0] % 500));
  }
  return ids;
}

// Some sequences in a state of their own, prompts read by the ops.
class StepBatch {
 public:
  StepBatch(Model& model, const std::vector<int64_t>& lengths, uint32_t first_stream = 0)
      : model_(model),
        lengths_(lengths),
        state_(model, blocks_of(lengths), kStepBlock, std::ssize(lengths), 64) {
    int32_t next = blocks_of(lengths);
    for (size_t i = 0; i < lengths.size(); ++i) {
      // Backwards, so that pages do not adjoin.
      for (int64_t b = 0; b < ceil_div(lengths[i] + 8, kStepBlock); ++b)
        tables_[i].push_back(--next);
      const std::vector<int32_t> prompt =
          step_tokens(lengths[i], first_stream + static_cast<uint32_t>(i));
      const PagedState::Part part{int64_t(i), tables_[i], 0, prompt};
      state_.forward(std::span(&part, 1), 1);
    }
  }

  // One more token each: logits by the ops ...
  Tensor by_ops(const std::vector<int32_t>& tokens) {
    const NoGrad no_grad;
    const auto parts = parts_of(tokens);
    const Tensor logits = model_.logits(state_.forward(parts, 1));
    ++fed_;
    return to_device(to_dtype(logits, DType::f32), kCpu);
  }
  // ... and by the model's own kernels.
  Tensor by_step(const std::vector<int32_t>& tokens) {
    step_alone(tokens);
    ++fed_;
    return to_device(step->logits(), kCpu);
  }
  // At the same places as the next one.
  void step_alone(const std::vector<int32_t>& tokens) {
    const auto parts = parts_of(tokens);
    step = state_.decode(parts);
  }
  void replay(const Tensor& experts) { state_.replay(experts); }
  bool takes_steps() const { return state_.takes_steps(); }

  DecodeStep* step = nullptr;

 private:
  static int32_t blocks_of(const std::vector<int64_t>& lengths) {
    int64_t blocks = 0;
    for (const int64_t length : lengths) blocks += ceil_div(length + 8, kStepBlock);
    return static_cast<int32_t>(blocks);
  }
  std::vector<PagedState::Part> parts_of(const std::vector<int32_t>& tokens) {
    std::vector<PagedState::Part> parts;
    for (size_t i = 0; i < tokens.size(); ++i) {
      parts.push_back({int64_t(i), tables_[i], lengths_[i] + fed_, std::span(&tokens[i], 1)});
    }
    return parts;
  }

  Model& model_;
  std::vector<int64_t> lengths_;
  std::map<size_t, std::vector<int32_t>> tables_;
  PagedState state_;
  int64_t fed_ = 0;
};

inline double farthest(const Tensor& a, const Tensor& b) {
  double apart = 0;
  for (int64_t i = 0; i < b.numel(); ++i) apart = std::max(apart, difference(a.at(i), b.at(i)));
  return apart / largest_value(b);
}

}  // namespace tephra::step_test

// SPDX-License-Identifier: Apache-2.0
// A small run to be saved: tensors whose values follow from the step.
#pragma once

#include "tephra/core/tensor.h"
#include "tephra/train/checkpoint.h"
#include "tephra/train/checkpoint_writer.h"

namespace tephra {

inline Tensor numbered(const Shape& shape, DType dtype, int64_t step) {
  Tensor x(shape, dtype);
  for (int64_t i = 0; i < x.numel(); ++i) x.set(i, static_cast<double>((step * 31 + i) % 251));
  return x;
}

// `rows` sets the size of the largest one.
inline std::vector<NamedTensor> tensors_at(int64_t step, int64_t rows = 40) {
  return {{"model.embed_tokens.weight", numbered({rows, 16}, DType::f32, step)},
          {"model.norm.weight", numbered({16}, DType::bf16, step + 1)},
          {"adamw.m.model.norm.weight", numbered({16}, DType::f32, step + 2)},
          {"master_remainder.model.norm.weight", numbered({16}, DType::i16, step + 3)},
          {"model.experts", numbered({3, 5, 8}, DType::bf16, step + 4)},
          {"adamw.count", numbered({}, DType::i64, step + 5)}};
}

inline Json state_at(int64_t step) {
  Json state;
  state["loader"]["position"] = step * 4096;
  state["note"] = "a \"state\" of \n two lines";
  return state;
}

inline bool holds_step(const Checkpoint& checkpoint, int64_t step, int64_t rows = 40) {
  for (const auto& [name, value] : tensors_at(step, rows)) {
    if (!same_bits(checkpoint.load(name), value)) return false;
  }
  return checkpoint.step() == step && checkpoint.state().dump() == state_at(step).dump();
}

inline void save_and_wait(CheckpointWriter& writer, int64_t step, int64_t rows = 40) {
  writer.save(step, tensors_at(step, rows), state_at(step));
  writer.wait();
}

inline std::vector<int64_t> steps_in(const Path& run_dir) {
  std::vector<int64_t> steps;
  for (const CheckpointInfo& info : list_checkpoints(run_dir)) steps.push_back(info.step);
  return steps;
}

}  // namespace tephra

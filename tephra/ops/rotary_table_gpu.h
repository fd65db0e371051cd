// SPDX-License-Identifier: Apache-2.0
// Cosines and sines for rotary embeddings on a GPU. Frequencies and angles are rounded to float as
// on the CPU (ops/rotary_table.h); their cosines and sines are taken in double.
#pragma once

#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/rope.h"

namespace tephra::gpu {

inline constexpr int64_t kRotaryRows = 8;

// A row of cosines, then sines, for each frequency; a thread has one frequency of some rows.
struct RotaryRows {
  const int32_t* position;  // null: a row is its position
  int64_t rows, half;
  double theta;
  float* table;  // [N, 2 * half]

  __device__ void operator()(int64_t block, int64_t i) const {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(2 * half);
    const float frequency = 1.0f / static_cast<float>(pow(theta, double(exponent)));
    const int64_t begin = block * kRotaryRows;
    const int64_t end = begin + kRotaryRows < rows ? begin + kRotaryRows : rows;
    for (int64_t r = begin; r < end; ++r) {
      double sine, cosine;
      const auto at = static_cast<float>(position ? position[r] : r);
      sincos(double(at * frequency), &sine, &cosine);
      table[r * 2 * half + i] = static_cast<float>(cosine);
      table[r * 2 * half + half + i] = static_cast<float>(sine);
    }
  }
};

// [N, rotary_dim]
inline Tensor rotary_table(Stream& stream, const Tensor& position_N, const RopeForm& form) {
  const int64_t rows = position_N.numel(), half = form.rotary_dim / 2;
  Tensor table({rows, form.rotary_dim}, DType::f32, position_N.device(), Purpose::workspace);
  for_each(stream, blocks_for(rows, kRotaryRows), half,
           RotaryRows{position_N.data<int32_t>(), rows, half, form.theta, table.data<float>()});
  return table;
}

// Rows of all positions below `positions` at least; made once and kept for all layers and calls.
Tensor kept_rotary_table(Stream& stream, int64_t positions, const RopeForm& form);

}  // namespace tephra::gpu

// SPDX-License-Identifier: Apache-2.0
// Rows of a table by token id.
#pragma once

#include "tephra/core/weight.h"

namespace tephra {

// ids_N i32 (on the host or the table's device), table [V, H] -> [N, H]. The row `pad_id` gets no
// gradient from here (-1: no such row).
Tensor embedding(const Tensor& ids_N, const Tensor& table, int64_t pad_id = -1);

// Rows as f32 of a table that is packed or, beside activations in f32, still bf16; on a GPU a
// packed table also gives bf16. Any other table gives rows in its own dtype. Recorded only when it
// is a parameter.
Tensor embedding(const Tensor& ids_N, const Weight& table, DType dtype, int64_t pad_id = -1);

namespace kernel {

struct WideEmbedding {
  const Tensor& ids;    // [N] i32
  const Weight& table;  // [V, H], packed or, on the CPU, bf16
  Tensor& y;            // [N, H] f32; on a GPU also bf16

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct Embedding {
  const Tensor& ids;    // [N] i32
  const Tensor& table;  // [V, H]
  Tensor& y;            // [N, H]

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct EmbeddingGrad {
  const Tensor& dy;   // [N, H]
  const Tensor& ids;  // [N] i32
  int64_t pad_id;
  Tensor dtable;  // [V, H], acc dtype
  bool accumulate;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra

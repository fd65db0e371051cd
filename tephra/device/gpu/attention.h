// SPDX-License-Identifier: Apache-2.0
// Attention on the tensor cores of Hopper, in bf16 with heads of 64, 128 or 256: query row i sees
// key rows [first[i], last[i]), which says causality, documents, windows and caches at once. Sums
// are f32 in one order that follows from the shape. ops/attention_gpu.cu has the portable twin.
#pragma once

#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

// A matrix of bf16 or f32 in rows, with the elements from one row to the next.
struct MatrixRows {
  const void* data = nullptr;
  int64_t stride = 0;
};
struct MatrixRowsOut {
  void* data = nullptr;  // null when not wanted
  int64_t stride = 0;
  bool accumulate = false;
};

struct AttentionInput {
  MatrixRows q;     // [queries, query_heads * head_dim]
  MatrixRows k, v;  // [keys, kv_heads * head_dim]
  const int32_t *first, *last;
  int64_t queries, keys;
  int query_heads, kv_heads;
  int64_t head_dim;
  float scale;
};

// Whether this device, shape and alignment are for it.
bool takes_attention(const Stream& stream, const AttentionInput& in);

// o as q; lse [queries, query_heads] in f32.
void attention_hopper(Stream& stream, const AttentionInput& in, const MatrixRowsOut& o,
                      const MatrixRowsOut& lse);

struct AttentionGradients {
  MatrixRows d_o, o;     // as q
  MatrixRows lse, dlse;  // f32; no dlse: zero
  MatrixRowsOut dq, dk, dv;
};

bool takes_attention_grad(const Stream& stream, const AttentionInput& in,
                          const AttentionGradients& g);

// Bytes that the gradients need beside their outputs.
int64_t attention_grad_workspace(const AttentionInput& in);

void attention_grad_hopper(Stream& stream, const AttentionInput& in, const AttentionGradients& g,
                           void* workspace);

}  // namespace tephra::gpu

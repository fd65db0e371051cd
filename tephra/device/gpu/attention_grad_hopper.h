// SPDX-License-Identifier: Apache-2.0
// What the two passes of attention's gradients for Hopper share: dq sums over keys and has one,
// dk and dv sum over queries and have the other. Each computes the scores again, and nobody adds to
// what another block has written.
#pragma once

#include "tephra/device/gpu/attention_hopper.h"

namespace tephra::gpu::hopper {

// Keys that any of 64 queries sees, and keys that all see.
struct QuerySpan {
  int begin, end, whole_begin, whole_end;

  __device__ bool sees(int key, int keys) const { return begin < key + keys && end > key; }
  __device__ bool masked(int key, int keys) const {
    return whole_begin > key || whole_end < key + keys;
  }
};

// What both passes need of 64 queries of one head.
struct QueryBlock {
  float lse2[kHalf];   // in powers of two; inf for a row that is not there or sees nothing
  float delta[kHalf];  // sum(do * o) - dlse
  int32_t first[kHalf], last[kHalf];
  QuerySpan span;
};

// All blocks of a head are in one piece; there is an even number of them.
struct QueryBlocks {
  const QueryBlock* blocks;
  const QuerySpan* spans;
  int count;
  const int* key_order;  // tiles of keys, those that most blocks see first; null: as they come

  __device__ const QueryBlock& of(int head, int block) const {
    return blocks[int64_t{head} * count + block];
  }
};

// Keys of a unit in the pass of dk and dv.
int key_tile(const AttentionInput& in);

// Query heads of a KV head are dealt to so many units, when tiles of keys are too few to keep the
// device busy. By the shape alone, so that the order of sums is.
int key_grad_splits(const AttentionInput& in);

void attention_query_grad(Stream& stream, const AttentionInput& in, const AttentionGradients& g,
                          const QueryBlocks& blocks);

// Into dk and dv, or f32 parts of them: [splits, keys, kv_heads * head_dim] each.
void attention_key_grad(Stream& stream, const AttentionInput& in, const AttentionGradients& g,
                        const QueryBlocks& blocks, float* dk_parts, float* dv_parts);

}  // namespace tephra::gpu::hopper

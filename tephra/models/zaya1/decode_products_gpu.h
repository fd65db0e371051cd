// SPDX-License-Identifier: Apache-2.0
// What becomes of a decode step's products of all rows with one matrix, and their form for Hopper.
#pragma once

#include "tephra/models/zaya1/decode_gpu.h"

namespace tephra::zaya1 {

// What becomes of a product: its column is made ready ahead, what was there before is read while
// the product is formed.
struct DecodeStore {
  bf16* out;
  int width;

  struct Column {
    bf16* out;
    int width;

    __device__ float before(int64_t) const { return 0; }
    __device__ void write(int64_t row, float, float value) const { out[row * width] = bf16(value); }
  };
  __device__ Column column(int64_t c) const { return {out + c, width}; }
};

struct DecodeStoreLogits {
  float* out;
  int64_t width;

  struct Column {
    float* out;
    int64_t width;

    __device__ float before(int64_t) const { return 0; }
    __device__ void write(int64_t row, float, float value) const { out[row * width] = value; }
  };
  __device__ Column column(int64_t c) const { return {out + c, width}; }
};

struct DecodeMergeProduct {
  DecodeMerged merged;

  struct Column {
    DecodeMerged::Column at;

    __device__ float before(int64_t row) const { return at.before(row); }
    __device__ void write(int64_t row, float before, float value) const {
      at.write(row, before, bf16(value));
    }
  };
  __device__ Column column(int64_t c) const { return {merged.column(static_cast<int>(c))}; }
};

// The head's product for Hopper; false when device, shape or format is not for it
// (decode_products_cuda.cu). It has the same bits.
bool stream_head(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows);
// Its form for 128 rows (decode_head_cuda.cu).
bool tile_head(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows);
// Likewise the projections and the way back.
bool tile_project(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                  const DecodeLayer& layer);
bool tile_return(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                 const DecodeLayer& layer);

}  // namespace tephra::zaya1

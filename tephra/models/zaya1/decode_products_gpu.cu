// SPDX-License-Identifier: Apache-2.0
// A decode step's beginning and end, and its products of all rows with one matrix. The matrix is
// fetched before the kernel ahead has ended: it does not depend on it.
#include "tephra/models/zaya1/decode_products_gpu.h"

namespace tephra::zaya1 {
namespace {

struct DecodeThetas {
  static constexpr int kMost = 4;
  double at[kMost];
};

// A block for each theta. As ops/rotary_table_gpu.h has it.
__global__ void decode_frequencies(DecodeThetas thetas, int rotary_dim, float* frequencies) {
  const int half = rotary_dim / 2;
  for (int k = static_cast<int>(threadIdx.x); k < half; k += static_cast<int>(blockDim.x)) {
    const float exponent = static_cast<float>(2 * k) / static_cast<float>(rotary_dim);
    frequencies[static_cast<int>(blockIdx.x) * half + k] =
        1.0f / static_cast<float>(pow(thetas.at[blockIdx.x], double(exponent)));
  }
}

// Sines and cosines of row r's position.
__device__ inline void decode_turn_row(const DecodeWork& w, int64_t r, int thetas, int rotary_dim) {
  const int half = rotary_dim / 2;
  for (int i = static_cast<int>(threadIdx.x); i < half * thetas;
       i += static_cast<int>(blockDim.x)) {
    const int theta = i / half, k = i % half;
    double sine, cosine;
    sincos(double(static_cast<float>(w.positions[r]) * w.frequencies[i]), &sine, &cosine);
    float* row = w.rotary + (int64_t{theta} * kDecodeRows + r) * rotary_dim;
    row[k] = static_cast<float>(cosine);
    row[half + k] = static_cast<float>(sine);
  }
}

// Two blocks for each row: one embeds, one turns.
template <class Stored>
__global__ void decode_enter_rows(DecodeWork w, const void* embedding, const bf16* scale,
                                  const bf16* bias, int width, int thetas, int rotary_dim) {
  gpu::let_next_kernel_start();
  const int64_t r = blockIdx.x;
  if (blockIdx.y == 1) return decode_turn_row(w, r, thetas, rotary_dim);
  const int64_t token = w.tokens[r];
#pragma unroll 8
  for (int c = static_cast<int>(threadIdx.x); c < width; c += static_cast<int>(blockDim.x)) {
    const float embedded = Stored::value(embedding, width, token, c);
    w.stream[r * width + c] = (embedded + float(bias[c])) * float(scale[c]);
  }
}

__global__ void decode_norm_rows(const float* stream, const bf16* weight, int width, float eps,
                                 bf16* normed, bf16* ordered) {
  gpu::let_next_kernel_start();
  const DecodeNormer normer(weight, width);
  gpu::wait_for_kernel_ahead();
  const int64_t r = blockIdx.x;
  normer.norm(stream + r * width, 1, eps, [&](int, const gpu::Floats<gpu::kWide>& values) {
    const int first = DecodeNormer::column();
    gpu::store(normed + r * width + first, values);
    if (!ordered) return;
#pragma unroll
    for (int i = 0; i < gpu::kWide; i += 2) {
      const uint32_t low = bf16(values[i]).bits, high = bf16(values[i + 1]).bits;
      *reinterpret_cast<uint32_t*>(ordered + r * width + decode_ordered(first + i)) =
          low | high << 16;
    }
  });
}

// Depth averaging: what was there is the layer before's.
struct DecodeAverage {
  const bf16 *bias, *scale;
  bf16* states;

  struct Column {
    float bias, scale;
    bool averages;
    bf16* states;

    __device__ float before(int64_t row) const {
      return averages ? float(states[row * kDecodeRouter]) : 0.0f;
    }
    __device__ void write(int64_t row, float before, float value) const {
      const bf16 own = bf16(value + bias);
      states[row * kDecodeRouter] = averages ? bf16(fmaf(before, scale, float(own))) : own;
    }
  };
  __device__ Column column(int64_t c) const {
    return {float(bias[c]), scale ? float(scale[c]) : 0.0f, scale != nullptr, states + c};
  }
};

// Blocks: kTiles times eight rows of the matrix, groups of sixteen tokens.
template <class Stored, int kTiles, int kSteps, class Result>
__global__ void __launch_bounds__(gpu::kSkinnyThreads,
                                  (Stored::template Held<kTiles, kSteps>::kBlocks))
    decode_product(const void* matrix, DecodeInput input, int rows, Result result) {
  gpu::let_next_kernel_start();
  constexpr int kWidth = gpu::SkinnySums<kTiles>::kWidth;
  static_assert(gpu::kSkinnyTokens * kWidth <= gpu::kSkinnyThreads, "a thread has one element");
  __shared__ gpu::SkinnySums<kTiles> sums;
  const int64_t first = int64_t{blockIdx.x} * kWidth;
  typename Stored::template Held<kTiles, kSteps> weights;
  weights.fetch(matrix, [&](int i) { return first + i * gpu::kSkinnyRows; });
  DecodeRowsReader reader(input, kSteps * gpu::kSkinnyColumns, gpu::dynamic_shared<gpu::Bits128>());
  const int token = static_cast<int>(threadIdx.x) / kWidth;
  const int own = static_cast<int>(threadIdx.x) % kWidth;
  const auto column = result.column(first + own);
  gpu::wait_for_kernel_ahead();
  reader.ready(rows);
  const int own_begin = static_cast<int>(blockIdx.y) * gpu::kSkinnyTokens;
  const int stride = static_cast<int>(gridDim.y) * gpu::kSkinnyTokens;
  for (int begin = own_begin; begin < rows; begin += stride) {
    if (begin > own_begin) __syncthreads();  // the sums have been read
    const bool mine = token < gpu::kSkinnyTokens && begin + token < rows;
    const float before = mine ? column.before(begin + token) : 0.0f;
    gpu::multiply_tokens<kTiles, kSteps>(
        weights,
        [&](int i) -> const bf16* { return begin + i < rows ? reader[begin + i] : nullptr; }, sums);
    __syncthreads();
    if (mine) column.write(begin + token, before, sums.total(token, own));
  }
}

// The same for a matrix of very many rows and one group of tokens: a block goes from tile to tile,
// and the next one is on its way while it multiplies.
template <class Stored, int kSteps, class Result>
__global__ void __launch_bounds__(gpu::kSkinnyThreads, 2)
    decode_long_product(const void* matrix, DecodeInput input, int rows, int64_t tiles,
                        Result result) {
  gpu::let_next_kernel_start();
  __shared__ gpu::SkinnySums<1> sums;
  typename Stored::template Held<1, kSteps> weights[2];
  const auto fetch = [&](auto& to, int64_t tile) {
    if (tile < tiles) to.fetch(matrix, [&](int) { return tile * gpu::kSkinnyRows; });
  };
  fetch(weights[0], blockIdx.x);
  DecodeRowsReader reader(input, kSteps * gpu::kSkinnyColumns, gpu::dynamic_shared<gpu::Bits128>());
  const int token = static_cast<int>(threadIdx.x) / gpu::kSkinnyRows;
  const int own = static_cast<int>(threadIdx.x) % gpu::kSkinnyRows;
  gpu::wait_for_kernel_ahead();
  reader.ready(rows);
  const auto multiply = [&](const auto& by, int64_t tile) {
    gpu::multiply_tokens<1, kSteps>(
        by, [&](int i) -> const bf16* { return i < rows ? reader[i] : nullptr; }, sums);
    __syncthreads();
    if (token < rows) {
      const auto column = result.column(tile * gpu::kSkinnyRows + own);
      column.write(token, column.before(token), sums.total(token, own));
    }
    __syncthreads();
  };
  for (int64_t tile = blockIdx.x; tile < tiles; tile += 2 * gridDim.x) {
    const int64_t next = tile + gridDim.x;
    fetch(weights[1], next);
    multiply(weights[0], tile);
    if (next >= tiles) break;
    fetch(weights[0], next + gridDim.x);
    multiply(weights[1], next);
  }
}

template <class Stored, int kTiles, class Result>
void multiply_rows(gpu::Stream& stream, const void* matrix, int64_t out, int in,
                   const DecodeInput& input, int rows, const Result& result) {
  const int64_t shared = decode_shared_bytes(input, in);
  visit_depth(in, [&]<int kSteps>() {
    const auto kernel = decode_product<Stored, kTiles, kSteps, Result>;
    if (shared > 0) stream.allow_shared(kernel, shared);
    const int64_t blocks = out / (int64_t{kTiles} * gpu::kSkinnyRows);
    stream.launch_early(kernel,
                        {.blocks = blocks,
                         .blocks_y = decode_token_blocks(blocks, 2, rows),
                         .threads = gpu::kSkinnyThreads,
                         .shared_bytes = shared},
                        matrix, input, rows, result);
  });
}

// The stream, normed by the product itself where the rows are few.
DecodeInput normed_input(const DecodePlan& p, const DecodeWork& w, int rows, const bf16* norm) {
  if (rows > kDecodeNormedRows) return {w.normed, nullptr, nullptr, 0};
  return {nullptr, w.stream, norm, p.sizes.eps};
}

template <class Result>
void multiply_many_rows(gpu::Stream& stream, const DecodeMatrix& matrix, int64_t out, int in,
                        const DecodeInput& input, int rows, const Result& result) {
  constexpr int64_t kBlocks = 264;  // two for each multiprocessor of a large device
  const int64_t shared = decode_shared_bytes(input, in);
  visit_stored(matrix, [&]<class Stored>() {
    visit_depth(in, [&]<int kSteps>() {
      const auto kernel = decode_long_product<Stored, kSteps, Result>;
      if (shared > 0) stream.allow_shared(kernel, shared);
      stream.launch_early(
          kernel, {.blocks = kBlocks, .threads = gpu::kSkinnyThreads, .shared_bytes = shared},
          matrix.data, input, rows, out / gpu::kSkinnyRows, result);
    });
  });
}

// Blocks take two tiles of rows where there are rows enough to read the tokens less often.
template <class Result>
void multiply_by_rows(gpu::Stream& stream, const DecodeMatrix& matrix, int64_t out, int in,
                      const DecodeInput& input, int rows, const Result& result) {
  const bool two = rows > gpu::kSkinnyTokens;
  visit_stored(matrix, [&]<class Stored>() {
    if (two) {
      multiply_rows<Stored, 2>(stream, matrix.data, out, in, input, rows, result);
    } else {
      multiply_rows<Stored, 1>(stream, matrix.data, out, in, input, rows, result);
    }
  });
}

// --- the likeliest token ---

struct DecodeBest {
  float logit;
  int32_t token;

  // NaN wins, so that a broken model is noticed; of equals the lower token.
  __device__ void take(float other, int32_t other_token) {
    const bool nan = other != other, own_nan = logit != logit;
    const bool better = own_nan ? nan && other_token < token
                                : nan || other > logit || (other == logit && other_token < token);
    if (!better) return;
    logit = other;
    token = other_token;
  }
  __device__ void take_block(DecodeBest* shared) {
    shared[threadIdx.x] = *this;
    for (int step = gpu::kThreads / 2; step > 0; step /= 2) {
      __syncthreads();
      if (static_cast<int>(threadIdx.x) < step) {
        const DecodeBest other = shared[threadIdx.x + step];
        take(other.logit, other.token);
        shared[threadIdx.x] = *this;
      }
    }
  }
};

__global__ void decode_best_pieces(DecodeWork w, int64_t vocabulary, int64_t usable) {
  gpu::let_next_kernel_start();
  __shared__ DecodeBest shared[gpu::kThreads];
  gpu::wait_for_kernel_ahead();
  const int64_t r = blockIdx.y, each = (usable + gridDim.x - 1) / gridDim.x;
  const int64_t begin = blockIdx.x * each, end = begin + each < usable ? begin + each : usable;
  DecodeBest best{-INFINITY, INT32_MAX};
  for (int64_t c = begin + threadIdx.x; c < end; c += gpu::kThreads) {
    best.take(w.logits[r * vocabulary + c], static_cast<int32_t>(c));
  }
  best.take_block(shared);
  if (threadIdx.x > 0) return;
  w.best_logit[r * gridDim.x + blockIdx.x] = best.logit;
  w.best_token[r * gridDim.x + blockIdx.x] = best.token;
}

__global__ void decode_best_row(DecodeWork w) {
  gpu::let_next_kernel_start();
  __shared__ DecodeBest shared[gpu::kThreads];
  gpu::wait_for_kernel_ahead();
  const int64_t r = blockIdx.x;
  DecodeBest best{-INFINITY, INT32_MAX};
  if (threadIdx.x < kDecodeBestPieces) {
    best = {w.best_logit[r * kDecodeBestPieces + threadIdx.x],
            w.best_token[r * kDecodeBestPieces + threadIdx.x]};
  }
  best.take_block(shared);
  if (threadIdx.x > 0) return;
  w.likeliest[r] = {best.token, best.logit};
  // As one word, which the host takes as one; its first half is the token.
  const uint64_t logit = static_cast<uint32_t>(__float_as_int(best.logit));
  const auto told = static_cast<volatile uint64_t*>(w.told);
  told[r] = logit << 32 | static_cast<uint32_t>(best.token);
  __threadfence_system();
}

// Who comes first depends on the moment; the caller sorts.
__global__ void decode_find_rows(const float* logits, int64_t vocabulary, int64_t usable,
                                 DecodeCandidates c) {
  const int64_t r = blockIdx.y, step = int64_t{gridDim.x} * blockDim.x;
  const float least = c.least[r];
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < usable; i += step) {
    const float logit = logits[r * vocabulary + i];
    if (!(logit >= least)) continue;
    const int32_t place = atomicAdd(c.counts + r, 1);
    if (place < DecodeStep::kMostCandidates) {
      c.found[r * DecodeStep::kMostCandidates + place] = {static_cast<int32_t>(i), logit};
    }
  }
}

__global__ void decode_go_on_rows(DecodeWork w, int rows) {
  const int r = static_cast<int>(threadIdx.x);
  if (r >= rows) return;
  w.tokens[r] = w.likeliest[r].token;
  ++w.positions[r];
}

}  // namespace

bool decode_takes_depth(int64_t columns) {
  const int64_t steps = columns / gpu::kSkinnyColumns;
  return columns % gpu::kSkinnyColumns == 0 &&
         (steps == 1 || steps == 2 || steps == 4 || steps == 8);
}

void decode_prepare(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w) {
  DecodeThetas thetas;
  std::copy(p.thetas.begin(), p.thetas.end(), thetas.at);
  stream.launch(decode_frequencies,
                {.blocks = static_cast<int64_t>(p.thetas.size()), .threads = gpu::kThreads}, thetas,
                p.sizes.rotary_dim, w.frequencies);
}

void decode_enter(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows) {
  visit_stored(p.embedding, [&]<class Stored>() {
    stream.launch(decode_enter_rows<Stored>,
                  {.blocks = rows, .blocks_y = 2, .threads = gpu::kThreads}, w, p.embedding.data,
                  p.entry_scale, p.entry_bias, p.sizes.hidden, static_cast<int>(p.thetas.size()),
                  p.sizes.rotary_dim);
  });
}

void decode_norm(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                 const bf16* weight) {
  stream.launch_early(decode_norm_rows, {.blocks = rows, .threads = gpu::kThreads}, w.stream,
                      weight, p.sizes.hidden, p.sizes.eps, w.normed,
                      rows >= kDecodeOrderedRows ? w.ordered : nullptr);
}

void decode_project(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                    const DecodeLayer& l) {
  if constexpr (gpu::kHasFastPaths) {
    if (tile_project(stream, p, w, rows, l)) return;
  }
  const int out = p.sizes.channels() + p.sizes.values();
  multiply_by_rows(stream, l.qkv, out, p.sizes.hidden, normed_input(p, w, rows, l.input_norm), rows,
                   DecodeStore{w.latents, out});
}

void decode_return(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                   const DecodeLayer& l) {
  if constexpr (gpu::kHasFastPaths) {
    if (tile_return(stream, p, w, rows, l)) return;
  }
  multiply_by_rows(stream, l.out, p.sizes.hidden, p.sizes.queries(),
                   {w.attended, nullptr, nullptr, 0}, rows,
                   DecodeMergeProduct{DecodeMerged{l.after_attention, w.stream, p.sizes.hidden}});
}

void decode_narrow(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                   const DecodeLayer& l) {
  multiply_rows<gpu::Bf16Matrix, 1>(stream, l.router_down, kDecodeRouter, p.sizes.hidden,
                                    normed_input(p, w, rows, l.mlp_norm), rows,
                                    DecodeAverage{l.router_down_bias, l.router_scale, w.router});
}

void decode_head(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows) {
  const auto multiply = [&] {
    if constexpr (gpu::kHasFastPaths) {
      if (tile_head(stream, p, w, rows) || stream_head(stream, p, w, rows)) return;
    }
    const int64_t vocabulary = p.sizes.vocabulary;
    const DecodeInput input{w.normed, nullptr, nullptr, 0};
    const DecodeStoreLogits logits{w.logits, vocabulary};
    if (rows <= gpu::kSkinnyTokens) {
      multiply_many_rows(stream, p.head, vocabulary, p.sizes.hidden, input, rows, logits);
    } else {
      multiply_by_rows(stream, p.head, vocabulary, p.sizes.hidden, input, rows, logits);
    }
  };
  multiply();
  stream.launch_early(decode_best_pieces,
                      {.blocks = kDecodeBestPieces, .blocks_y = rows, .threads = gpu::kThreads}, w,
                      p.sizes.vocabulary, p.sizes.usable);
  stream.launch_early(decode_best_row, {.blocks = rows, .threads = gpu::kThreads}, w);
}

void decode_find(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                 const DecodeCandidates& candidates) {
  stream.launch(decode_find_rows,
                {.blocks = kDecodeBestPieces, .blocks_y = rows, .threads = gpu::kThreads}, w.logits,
                p.sizes.vocabulary, p.sizes.usable, candidates);
}

void decode_go_on(gpu::Stream& stream, const DecodePlan&, const DecodeWork& w, int rows) {
  stream.launch(decode_go_on_rows, {.blocks = 1, .threads = kDecodeRows}, w, rows);
}

}  // namespace tephra::zaya1

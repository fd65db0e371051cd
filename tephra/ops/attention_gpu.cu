// SPDX-License-Identifier: Apache-2.0
// Portable attention in tiles of 64 queries by 64 keys: scores exist one tile at a time, in f32,
// softmax is corrected as larger scores come; bf16 is multiplied on the matrix units. What Hopper
// can do faster goes to device/gpu/attention.h. Nothing is added by two blocks, so that the order
// of every sum is fixed: keys and values have a pass of their own, which computes the scores again.
#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/attention.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/device/gpu/quad.h"
#include "tephra/device/gpu/tile.h"
#include "tephra/ops/attention.h"

namespace tephra::kernel {
namespace {

constexpr int kSide = 64;
template <class T>
using Product = gpu::TileProduct<T, kSide>;
template <class T>
using Sums = typename Product<T>::Sums;

template <class T>
struct AttentionArgs {
  gpu::Rows<const T> q, k, v;
  const int32_t *first, *last;
  int64_t queries, keys, head_dim, value_dim;
  int64_t group;  // query heads that share a KV head
  float scale;
  const int32_t* pages;  // null where keys lie in one piece
  int64_t page_rows;
  bool wide;  // rows and heads are on 16 bytes

  __device__ int64_t row(int64_t key) const {
    return pages ? pages[key / page_rows] * page_rows + key % page_rows : key;
  }
};

// What backward reads beside that.
template <class T>
struct AttentionGradArgs {
  gpu::Rows<const T> d_o;  // null when it is zero
  gpu::Rows<const float> lse, delta;
};

// A tile of scores and the key ranges of its queries.
template <class T>
struct ScoreTile {
  typename Product<T>::Buffers buffers;
  float at[kSide][kSide + 1];
  int32_t first[kSide], last[kSide];
  bool heard[kSide];  // whether any query sees the key: a row that none does may hold anything

  __device__ gpu::Square<false, kSide + 1> scores() const { return {at}; }
  __device__ gpu::Square<true, kSide + 1> transposed() const { return {at}; }
};

template <class T>
__device__ void load_ranges(const AttentionArgs<T>& a, int64_t query, ScoreTile<T>& tile) {
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kSide; i += gpu::kTileThreads) {
    const bool there = query + i < a.queries;
    tile.first[i] = there ? a.first[query + i] : 0;
    tile.last[i] = there ? a.last[query + i] : 0;
  }
  __syncthreads();
}

// Keys that any query of the tile sees; begin is a multiple of a tile.
struct KeySpan {
  int64_t begin, end;

  template <class T>
  __device__ explicit KeySpan(const ScoreTile<T>& tile) : begin(INT64_MAX), end(0) {
    for (int i = 0; i < kSide; ++i) {
      if (tile.first[i] >= tile.last[i]) continue;
      begin = tile.first[i] < begin ? tile.first[i] : begin;
      end = tile.last[i] > end ? tile.last[i] : end;
    }
    begin = end > 0 ? begin / kSide * kSide : 0;
  }
};

// tile.at = f(query, key, q . k), zero or what f says where the key is not seen.
template <class T, class F>
__device__ void score_tile(const AttentionArgs<T>& a, int64_t head, int64_t query, int64_t key,
                           ScoreTile<T>& tile, F f) {
  const int64_t q_column = head * a.head_dim, k_column = head / a.group * a.head_dim;
  const auto q_line = [&](int64_t i) {
    return query + i < a.queries ? a.q[query + i] + q_column : nullptr;
  };
  const auto k_line = [&](int64_t j) {
    return key + j < a.keys ? a.k[a.row(key + j)] + k_column : nullptr;
  };
  Sums<T> sums;
  Product<T>::multiply(tile.buffers, 0, a.head_dim, gpu::along_terms(q_line, a.head_dim, a.wide),
                       gpu::along_terms(k_line, a.head_dim, a.wide), sums);
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < kSide; j += gpu::kTileThreads) {
    bool any = false;
    for (int i = 0; i < kSide; ++i) any |= key + j >= tile.first[i] && key + j < tile.last[i];
    tile.heard[j] = any;
  }
  sums.each([&](int i, int j, float value) {
    const bool seen = key + j >= tile.first[i] && key + j < tile.last[i];
    tile.at[i][j] = f(i, seen, value * a.scale);
  });
  __syncthreads();
}

template <class T, int kTiles>
__global__ void __launch_bounds__(gpu::kTileThreads)
    attend(AttentionArgs<T> a, gpu::Rows<T> o, gpu::Rows<float> lse) {
  __shared__ ScoreTile<T> tile;
  __shared__ float totals[kSide], rescale[kSide];
  const int64_t query = int64_t{blockIdx.x} * kSide, head = blockIdx.y;
  const int64_t v_column = head / a.group * a.value_dim;
  load_ranges(a, query, tile);
  const KeySpan span(tile);
  const int row = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4;
  float largest = -INFINITY, total = 0;  // of the row, in all four of its threads
  Sums<T> out[kTiles];
  for (int64_t key = span.begin; key < span.end; key += kSide) {
    score_tile(a, head, query, key, tile,
               [](int, bool seen, float s) { return seen ? s : -INFINITY; });
    float top = -INFINITY, sum = 0;
    for (int j = part * 16; j < part * 16 + 16; ++j) top = fmaxf(top, tile.at[row][j]);
    const float before = largest;
    largest = fmaxf(before, gpu::quad_max(top));
    for (int j = part * 16; j < part * 16 + 16; ++j) {
      const float s = tile.at[row][j];
      const float p = s == -INFINITY ? 0.0f : expf(s - largest);
      tile.at[row][j] = p;
      sum += p;
    }
    const float keep = before == -INFINITY ? 0.0f : expf(before - largest);
    total = total * keep + gpu::quad_sum(sum);
    if (part == 0) rescale[row] = keep;
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      if (t * kSide >= a.value_dim) continue;
      out[t].each([&](int i, int, float& value) { value *= rescale[i]; });
      const auto v_line = [&, column = v_column + t * kSide](int64_t k) {
        return tile.heard[k] ? a.v[a.row(key + k)] + column : nullptr;
      };
      Product<T>::multiply(tile.buffers, 0, kSide, tile.scores(),
                           gpu::across_terms(v_line, a.value_dim - t * kSide, a.wide), out[t]);
    }
  }
  if (part == 0) totals[row] = total;
  __syncthreads();
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    out[t].each([&](int i, int j, float value) {
      const int64_t c = t * kSide + j;
      if (query + i >= a.queries || c >= a.value_dim) return;
      o[query + i][head * a.value_dim + c] = T(totals[i] == 0 ? 0.0f : value / totals[i]);
    });
  }
  if (part == 0 && query + row < a.queries) {
    lse[query + row][head] = total == 0 ? -INFINITY : largest + logf(total);
  }
}

// delta = sum(do * o) - dlse, for a head of a query.
template <class T>
struct AttentionDelta {
  gpu::Rows<const T> d_o, o;
  gpu::Rows<const float> dlse;
  int64_t heads, value_dim;
  gpu::Rows<float> delta;

  __device__ void operator()(int64_t i) const {
    const int64_t r = i / heads, h = i % heads;
    float sum = dlse ? -dlse[r][h] : 0.0f;
    for (int64_t c = h * value_dim; d_o && c < (h + 1) * value_dim; ++c) {
      sum = fmaf(float(d_o[r][c]), float(o[r][c]), sum);
    }
    delta[r][h] = sum;
  }
};

// tile.at = P, the probabilities of this tile.
template <class T>
__device__ void probability_tile(const AttentionArgs<T>& a, const AttentionGradArgs<T>& g,
                                 int64_t head, int64_t query, int64_t key, ScoreTile<T>& tile) {
  score_tile(a, head, query, key, tile, [&](int i, bool seen, float s) {
    return seen ? expf(s - g.lse[query + i][head]) : 0.0f;
  });
}

// tile.at: P -> scale * P * (do v^T - delta)
template <class T>
__device__ void score_gradient_tile(const AttentionArgs<T>& a, const AttentionGradArgs<T>& g,
                                    int64_t head, int64_t query, int64_t key, ScoreTile<T>& tile) {
  const int64_t o_column = head * a.value_dim, v_column = head / a.group * a.value_dim;
  Sums<T> sums;
  if (g.d_o) {
    const auto o_line = [&](int64_t i) {
      return query + i < a.queries ? g.d_o[query + i] + o_column : nullptr;
    };
    const auto v_line = [&](int64_t j) {
      return key + j < a.keys ? a.v[key + j] + v_column : nullptr;
    };
    Product<T>::multiply(tile.buffers, 0, a.value_dim,
                         gpu::along_terms(o_line, a.value_dim, a.wide),
                         gpu::along_terms(v_line, a.value_dim, a.wide), sums);
  }
  __syncthreads();
  sums.each([&](int i, int j, float value) {
    const float p = tile.at[i][j];
    tile.at[i][j] = p == 0 ? 0.0f : a.scale * p * (value - g.delta[query + i][head]);
  });
  __syncthreads();
}

template <class T, int kTiles>
__global__ void __launch_bounds__(gpu::kTileThreads)
    attend_query_grad(AttentionArgs<T> a, AttentionGradArgs<T> g, gpu::Rows<T> dq,
                      bool accumulate) {
  __shared__ ScoreTile<T> tile;
  const int64_t query = int64_t{blockIdx.x} * kSide, head = blockIdx.y;
  const int64_t k_column = head / a.group * a.head_dim;
  load_ranges(a, query, tile);
  const KeySpan span(tile);
  Sums<T> out[kTiles];
  for (int64_t key = span.begin; key < span.end; key += kSide) {
    probability_tile(a, g, head, query, key, tile);
    score_gradient_tile(a, g, head, query, key, tile);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      if (t * kSide >= a.head_dim) continue;
      const auto k_line = [&, column = k_column + t * kSide](int64_t k) {
        return tile.heard[k] ? a.k[key + k] + column : nullptr;
      };
      Product<T>::multiply(tile.buffers, 0, kSide, tile.scores(),
                           gpu::across_terms(k_line, a.head_dim - t * kSide, a.wide), out[t]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    out[t].each([&](int i, int j, float value) {
      const int64_t c = t * kSide + j;
      if (query + i >= a.queries || c >= a.head_dim) return;
      gpu::write(dq[query + i] + head * a.head_dim + c, value, accumulate);
    });
  }
}

// The first and last key that each tile of queries sees, so that a tile of keys can pass over those
// that do not see it.
template <class T>
__global__ void find_spans(AttentionArgs<T> a, int64_t* spans) {
  __shared__ ScoreTile<T> tile;
  load_ranges(a, int64_t{blockIdx.x} * kSide, tile);
  const KeySpan span(tile);
  if (threadIdx.x == 0) {
    spans[2 * blockIdx.x] = span.begin;
    spans[2 * blockIdx.x + 1] = span.end;
  }
}

// sums[t] += (tile.at)^T x: rows are keys, columns those of x from `column`.
template <class T, int kTiles>
__device__ void add_transposed(ScoreTile<T>& tile, const gpu::Rows<const T>& x, int64_t query,
                               const AttentionArgs<T>& a, int64_t column, int64_t width,
                               Sums<T> (&sums)[kTiles]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    if (t * kSide >= width) continue;
    const auto line = [&, first = column + t * kSide](int64_t k) {
      return query + k < a.queries ? x[query + k] + first : nullptr;
    };
    Product<T>::multiply(tile.buffers, 0, kSide, tile.transposed(),
                         gpu::across_terms(line, width - t * kSide, a.wide), sums[t]);
  }
}

template <class T, int kTiles>
__device__ void write_tiles(Sums<T> (&sums)[kTiles], const gpu::Rows<T>& to, int64_t row,
                            int64_t rows, int64_t column, int64_t width, bool accumulate) {
  if (!to) return;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    sums[t].each([&](int i, int j, float value) {
      const int64_t c = t * kSide + j;
      if (row + i < rows && c < width) gpu::write(to[row + i] + column + c, value, accumulate);
    });
  }
}

template <class T, int kTiles>
__global__ void __launch_bounds__(gpu::kTileThreads)
    attend_key_grad(AttentionArgs<T> a, AttentionGradArgs<T> g, const int64_t* spans,
                    gpu::Rows<T> dk, bool accumulate_dk, gpu::Rows<T> dv, bool accumulate_dv) {
  __shared__ ScoreTile<T> tile;
  const int64_t key = int64_t{blockIdx.x} * kSide, kv_head = blockIdx.y;
  Sums<T> key_sums[kTiles], value_sums[kTiles];
  for (int64_t query = 0; query < a.queries; query += kSide) {
    const int64_t at = query / kSide;
    if (spans[2 * at] >= key + kSide || spans[2 * at + 1] <= key) continue;
    load_ranges(a, query, tile);
    for (int64_t head = kv_head * a.group; head < (kv_head + 1) * a.group; ++head) {
      probability_tile(a, g, head, query, key, tile);
      if (g.d_o && dv) {
        add_transposed(tile, g.d_o, query, a, head * a.value_dim, a.value_dim, value_sums);
      }
      if (!dk) continue;
      __syncthreads();
      score_gradient_tile(a, g, head, query, key, tile);
      add_transposed(tile, a.q, query, a, head * a.head_dim, a.head_dim, key_sums);
    }
  }
  write_tiles(key_sums, dk, key, a.keys, kv_head * a.head_dim, a.head_dim, accumulate_dk);
  write_tiles(value_sums, dv, key, a.keys, kv_head * a.value_dim, a.value_dim, accumulate_dv);
}

// Calls f.operator()<kTiles>() for heads of this width.
template <class F>
void visit_width(int64_t width, F&& f) {
  if (width <= 2 * kSide) return f.template operator()<2>();
  if (width <= 4 * kSide) return f.template operator()<4>();
  if (width <= 10 * kSide) return f.template operator()<10>();
  throw Error(Fault::device, format("attention: heads of {} are wider than the GPU's 640", width),
              "use --device cpu");
}

template <class T, class Kernel>
AttentionArgs<T> args_of(const Kernel& k) {
  const gpu::Rows<const T> q = gpu::rows_of<const T>(k.q), key = gpu::rows_of<const T>(k.k),
                           value = gpu::rows_of<const T>(k.v);
  return {q,
          key,
          value,
          k.ranges.first_N.template data<int32_t>(),
          k.ranges.last_N.template data<int32_t>(),
          k.q.rows(),
          k.ranges.pages ? k.ranges.pages.numel() * k.ranges.page_rows : k.k.rows(),
          k.head_dim,
          k.value_dim(),
          k.q.cols() / k.k.cols(),
          static_cast<float>(k.scale),
          gpu::data_of<const int32_t>(k.ranges.pages),
          k.ranges.page_rows,
          gpu::are_wide(k.head_dim, q, key, value) && k.value_dim() % gpu::kWide == 0};
}

template <class T>
void run_gradients(gpu::Stream& stream, const AttentionGrad& k) {
  const int64_t heads = k.q.cols() / k.head_dim, tiles = gpu::blocks_for(k.q.rows(), kSide);
  const Tensor delta(k.lse.shape(), DType::f32, k.q.device(), Purpose::workspace);
  const Tensor spans({tiles, 2}, DType::i64, k.q.device(), Purpose::workspace);
  AttentionArgs<T> a = args_of<T>(k);
  const AttentionGradArgs<T> g{gpu::rows_of<const T>(k.d_o), gpu::rows_of<const float>(k.lse),
                               gpu::rows_of<const float>(delta)};
  a.wide = a.wide && gpu::is_wide(g.d_o);
  gpu::for_each_index(
      stream, k.lse.numel(),
      AttentionDelta<T>{g.d_o, gpu::rows_of<const T>(k.o), gpu::rows_of<const float>(k.dlse), heads,
                        a.value_dim, gpu::rows_of<float>(delta)});
  stream.launch(find_spans<T>, {.blocks = tiles, .threads = gpu::kTileThreads}, a,
                spans.data<int64_t>());
  if (k.dq.grad) {
    visit_width(a.head_dim, [&]<int kTiles>() {
      stream.launch(attend_query_grad<T, kTiles>,
                    {.blocks = tiles, .blocks_y = heads, .threads = gpu::kTileThreads}, a, g,
                    gpu::rows_of<T>(k.dq.grad), k.dq.accumulate);
    });
  }
  if (!k.dk.grad && !k.dv.grad) return;
  visit_width(std::max(a.head_dim, a.value_dim), [&]<int kTiles>() {
    stream.launch(attend_key_grad<T, kTiles>,
                  {.blocks = gpu::blocks_for(k.k.rows(), kSide),
                   .blocks_y = heads / a.group,
                   .threads = gpu::kTileThreads},
                  a, g, spans.data<int64_t>(), gpu::rows_of<T>(k.dk.grad), k.dk.accumulate,
                  gpu::rows_of<T>(k.dv.grad), k.dv.accumulate);
  });
}

gpu::MatrixRows matrix(const Tensor& t) {
  if (!t.defined()) return {};
  return {t.raw(), t.row_stride()};
}
gpu::MatrixRowsOut matrix_out(const Tensor& t, bool accumulate = false) {
  if (!t.defined()) return {};
  return {t.raw(), t.row_stride(), accumulate};
}

template <class Kernel>
gpu::AttentionInput fast_input(const Kernel& k) {
  return {matrix(k.q),
          matrix(k.k),
          matrix(k.v),
          k.ranges.first_N.template data<int32_t>(),
          k.ranges.last_N.template data<int32_t>(),
          k.q.rows(),
          k.k.rows(),
          static_cast<int>(k.q.cols() / k.head_dim),
          static_cast<int>(k.kv_heads()),
          k.head_dim,
          static_cast<float>(k.scale)};
}

template <class Kernel>
bool maybe_fast(const Kernel& k) {
  return gpu::kHasFastPaths && !gpu::only_portable() && k.q.dtype() == DType::bf16 &&
         k.value_dim() == k.head_dim;
}

// Rows of pages, one after another.
template <class T>
struct PageColumns {
  gpu::Rows<const T> from;
  const int32_t* pages;
  int64_t page_rows;
  gpu::Rows<T> to;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const int64_t row = pages[r / page_rows] * page_rows + r % page_rows;
    gpu::store_packed(to[r] + c, gpu::load_packed<W>(from[row] + c));
  }
};

Tensor in_one_piece(gpu::Stream& stream, const Tensor& paged, const KeyRanges& ranges) {
  const Tensor to({ranges.pages.numel() * ranges.page_rows, paged.cols()}, paged.dtype(),
                  paged.device(), Purpose::workspace);
  gpu::visit_float(paged.dtype(), [&]<class T>() {
    const PageColumns<T> f{gpu::rows_of<const T>(paged), ranges.pages.data<int32_t>(),
                           ranges.page_rows, gpu::rows_of<T>(to)};
    gpu::for_each_wide(stream, to.rows(), to.cols(), gpu::are_wide(to.cols(), f.from, f.to), f);
  });
  return to;
}

// The fast paths; false when they do not take this. They want keys in one piece: a copy of those
// that are seen costs little beside the products of a prompt with them.
bool attend_fast(gpu::Stream& stream, const Attention& k) {
  if constexpr (gpu::kHasFastPaths) {
    if (!maybe_fast(k)) return false;
    if (k.ranges.pages) {
      const Tensor keys = in_one_piece(stream, k.k, k.ranges);
      const Tensor values = in_one_piece(stream, k.v, k.ranges);
      const KeyRanges plain{k.ranges.first_N, k.ranges.last_N};
      return attend_fast(stream, {k.q, keys, values, plain, k.head_dim, k.scale, k.o, k.lse});
    }
    const gpu::AttentionInput in = fast_input(k);
    if (!gpu::takes_attention(stream, in)) return false;
    gpu::attention_hopper(stream, in, matrix_out(k.o), matrix_out(k.lse));
    return true;
  }
  return false;
}

bool run_gradients_fast(gpu::Stream& stream, const AttentionGrad& k) {
  if constexpr (gpu::kHasFastPaths) {
    if (!maybe_fast(k)) return false;
    const gpu::AttentionInput in = fast_input(k);
    const gpu::AttentionGradients g{matrix(k.d_o),
                                    matrix(k.o),
                                    matrix(k.lse),
                                    matrix(k.dlse),
                                    matrix_out(k.dq.grad, k.dq.accumulate),
                                    matrix_out(k.dk.grad, k.dk.accumulate),
                                    matrix_out(k.dv.grad, k.dv.accumulate)};
    if (!gpu::takes_attention_grad(stream, in, g)) return false;
    const auto space =
        Storage::allocate(stream.device(), gpu::attention_grad_workspace(in), Purpose::workspace);
    gpu::attention_grad_hopper(stream, in, g, space->data());
    return true;
  }
  return false;
}

}  // namespace

void Attention::on_gpu(gpu::Stream& stream) const {
  if (attend_fast(stream, *this)) return;
  const int64_t heads = q.cols() / head_dim;
  gpu::visit_float(q.dtype(), [&]<class T>() {
    const AttentionArgs<T> a = args_of<T>(*this);
    visit_width(a.value_dim, [&]<int kTiles>() {
      stream.launch(attend<T, kTiles>,
                    {.blocks = gpu::blocks_for(q.rows(), kSide),
                     .blocks_y = heads,
                     .threads = gpu::kTileThreads},
                    a, gpu::rows_of<T>(o), gpu::rows_of<float>(lse));
    });
  });
}

void AttentionGrad::on_gpu(gpu::Stream& stream) const {
  if (run_gradients_fast(stream, *this)) return;
  gpu::visit_float(q.dtype(), [&]<class T>() { run_gradients<T>(stream, *this); });
}

}  // namespace tephra::kernel

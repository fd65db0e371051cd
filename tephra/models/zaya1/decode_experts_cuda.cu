// SPDX-License-Identifier: Apache-2.0
// The experts' products on Hopper. The rows of all chosen experts' matrices are one list of which
// every block has a part, about as long as the others'; it comes through shared memory as
// device/gpu/skinny_stream.h has it, while the tokens of the expert at hand stay in registers.
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/device/gpu/skinny_stream.h"
#include "tephra/models/zaya1/decode_experts_gpu.h"

namespace tephra::zaya1 {
namespace {

namespace hopper = gpu::hopper;

struct ExpertStream {
  const void* matrices;
  const int32_t* chosen;
  int rows, experts;
  int width;  // of the result
  int stages;
};

template <int kTiles, int kTokens>
struct alignas(128) ExpertStreamShared {
  static constexpr int kGroup = kTokens < gpu::kSkinnyTokens ? kTokens : gpu::kSkinnyTokens;
  gpu::SkinnySums<kTiles, kGroup> sums[2];
  ExpertRows own;
  uint64_t arrived[16];
};

// A block's part of the list: items are `each` for every expert that was chosen.
struct ExpertItems {
  uint32_t present;
  int each, begin, end;

  __device__ ExpertItems(uint32_t experts, int each_expert) : present(experts), each(each_expert) {
    const int total = __popc(experts) * each_expert;
    const auto cut = [&](unsigned block) {
      return static_cast<int>(int64_t{total} * block / gridDim.x);
    };
    begin = cut(blockIdx.x);
    end = cut(blockIdx.x + 1);
  }
  __device__ int expert(int item) const { return expert_at(present, item / each); }
  __device__ int tile(int item) const { return item % each; }
};

// Takes a block through its items of kPieces each. row(item, i): the first row of an item's piece
// i. token(row): where a token begins. prepare(item, begin) gives what is called with the sums of
// sixteen tokens from `begin` on.
template <int kSteps, int kPieces, int kTokens, class Piece, class Shared, class Row, class Token,
          class Prepare>
__device__ void stream_experts(const ExpertStream& e, const ExpertItems& items,
                               hopper::PieceRing<Piece>& ring, Shared& shared, const Row& row,
                               const Token& token, const Prepare& prepare) {
  constexpr int kTiles = kPieces * Piece::kTiles, kGroup = Shared::kGroup;
  const int pieces = (items.end - items.begin) * kPieces;
  const auto row_of = [&](int piece) {
    return row(items.begin + piece / kPieces, piece % kPieces);
  };
  ExpertRows& own = shared.own;
  hopper::SkinnyTokens<kSteps, kTokens> held;
  int expert = -1, buffer = 0;
  for (int item = items.begin; item < items.end; ++item) {
    const int now = items.expert(item);
    if (now != expert) {
      if (expert >= 0) __syncthreads();  // the rows of the one before have been read
      expert = now;
      find_expert_rows(e.rows, expert, own);
      held.load([&](int i) { return i < own.count ? token(own.row[i]) : nullptr; });
    }
    const auto multiply = [&](const auto& weights, int begin, const auto& part, bool last) {
      const auto finish = prepare(item, begin);
      gpu::multiply_parts<kTiles, kSteps>(weights, part, shared.sums[buffer]);
      __syncthreads();
      if (last) {
        ring.template refill<kPieces>(e.matrices, pieces, (item - items.begin) * kPieces, row_of);
      }
      finish(shared.sums[buffer]);
      buffer ^= 1;
    };
    const auto weights = ring.template take<kPieces>();
#pragma unroll
    for (int g = 0; g < held.kGroups; ++g) {
      const int begin = g * kGroup;
      if (begin >= own.count) break;
      multiply(
          weights, begin, [&](int step) { return held.at(g, step); }, begin + kGroup >= own.count);
    }
    for (int begin = kTokens; begin < own.count; begin += kGroup) {
      const auto in_group = [&](int i) -> const bf16* {
        return begin + i < own.count ? token(own.row[begin + i]) : nullptr;
      };
      multiply(weights, begin, gpu::SkinnyReader<kSteps, decltype(in_group)>(in_group),
               begin + kGroup >= own.count);
    }
  }
}

// An item is kWidth columns of the activations: the gate's rows for them and the other's.
template <class Stored, int kSteps, int kTokens>
__global__ void __launch_bounds__(gpu::kSkinnyThreads)
    decode_stream_up(ExpertStream e, DecodeInput input, bf16* activated) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  using Piece = hopper::SkinnyPiece<Stored, kSteps>;
  constexpr int kWidth = Piece::kTiles * gpu::kSkinnyRows;
  using Shared = ExpertStreamShared<2 * Piece::kTiles, kTokens>;
  extern __shared__ gpu::Bits128 decode_shared[];
  auto& shared = *reinterpret_cast<Shared*>(decode_shared);
  auto* room = reinterpret_cast<std::byte*>(&shared + 1);
  hopper::PieceRing<Piece> ring(room, shared.arrived, e.stages);
  DecodeRowsReader reader(input, kSteps * gpu::kSkinnyColumns,
                          reinterpret_cast<gpu::Bits128*>(room + e.stages * Piece::kBytes));
  reader.ready(e.rows);  // what it reads is older than the kernel ahead
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  const ExpertItems items(only_experts(find_chosen(e.chosen, e.rows, shared.own), e.experts),
                          e.width / kWidth);
  const auto row = [&](int item, int i) {
    return (int64_t{items.expert(item)} * 2 + i) * e.width + items.tile(item) * kWidth;
  };
  ring.start(e.matrices, 2 * (items.end - items.begin),
             [&](int piece) { return row(items.begin + piece / 2, piece % 2); });
  stream_experts<kSteps, 2, kTokens>(
      e, items, ring, shared, row, [&](int r) { return reader[r]; },
      [&](int item, int begin) {
        return [&, item, begin](const auto& sums) {
          const ExpertRows& own = shared.own;
          for (int i = static_cast<int>(threadIdx.x); i < Shared::kGroup * kWidth;
               i += gpu::kSkinnyThreads) {
            const int token = i / kWidth, c = i % kWidth;
            if (begin + token >= own.count) continue;
            activated[int64_t{own.row[begin + token]} * e.width + items.tile(item) * kWidth + c] =
                decode_activated(sums.total(token, c), sums.total(token, kWidth + c));
          }
        };
      });
#endif
}

// An item is kWidth columns of the stream. The choice was made two kernels ahead, as in
// decode_experts_down, so the first pieces come while the kernel ahead runs.
template <class Stored, int kSteps, int kTokens>
__global__ void __launch_bounds__(gpu::kSkinnyThreads)
    decode_stream_down(ExpertStream e, const float* chosen_weight, const bf16* activated,
                       DecodeMerged merged) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  using Piece = hopper::SkinnyPiece<Stored, kSteps>;
  constexpr int kWidth = Piece::kTiles * gpu::kSkinnyRows, kDepth = kSteps * gpu::kSkinnyColumns;
  using Shared = ExpertStreamShared<Piece::kTiles, kTokens>;
  static_assert(Shared::kGroup * kWidth <= gpu::kSkinnyThreads, "a thread has one element");
  extern __shared__ gpu::Bits128 decode_shared[];
  auto& shared = *reinterpret_cast<Shared*>(decode_shared);
  hopper::PieceRing<Piece> ring(reinterpret_cast<std::byte*>(&shared + 1), shared.arrived,
                                e.stages);
  const uint32_t chosen = find_chosen(e.chosen, e.rows, shared.own);
  const ExpertItems items(only_experts(chosen, e.experts), e.width / kWidth);
  const auto row = [&](int item, int) {
    return int64_t{items.expert(item)} * e.width + items.tile(item) * kWidth;
  };
  ring.start(e.matrices, items.end - items.begin,
             [&](int piece) { return row(items.begin + piece, 0); });
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  if (chosen >> e.experts != 0) {  // some rows skip
    __syncthreads();
    for (int c = static_cast<int>(blockIdx.x * gpu::kSkinnyThreads + threadIdx.x); c < e.width;
         c += static_cast<int>(gridDim.x) * gpu::kSkinnyThreads) {
      const DecodeMerged::Column column = merged.column(c);
      for (int r = 0; r < e.rows; ++r) {
        if (shared.own.chosen[r] >= e.experts) column.write(r, column.before(r), bf16(0.0f));
      }
    }
  }
  const int token = static_cast<int>(threadIdx.x) / kWidth;
  const int c = static_cast<int>(threadIdx.x) % kWidth;
  stream_experts<kSteps, 1, kTokens>(
      e, items, ring, shared, row, [&](int r) { return activated + int64_t{r} * kDepth; },
      [&](int item, int begin) {
        const ExpertRows& own = shared.own;
        const bool mine = token < Shared::kGroup && begin + token < own.count;
        const int at = mine ? own.row[begin + token] : 0;
        const DecodeMerged::Column column = merged.column(items.tile(item) * kWidth + c);
        const float before = mine ? column.before(at) : 0.0f;
        const float weight = mine ? chosen_weight[at] : 0.0f;
        return [=](const auto& sums) {
          if (mine) column.write(at, before, bf16(float(bf16(sums.total(token, c))) * weight));
        };
      });
#endif
}

// How many pieces a block has on their way: as many as it has, or as there is room for.
struct StreamRoom {
  int stages;
  int64_t bytes;

  StreamRoom(const DecodePlan& p, int64_t pieces, int64_t piece_bytes, int64_t other_bytes) {
    static const int64_t most = gpu::most_shared_bytes(p.device) - 1024;  // what is static
    const char* asked = std::getenv("TEPHRA_EXP_STAGES");
    const int64_t limit = asked ? std::atoi(asked) : 16;
    stages = static_cast<int>(std::min({pieces, (most - other_bytes) / piece_bytes, limit}));
    bytes = stages * piece_bytes + other_bytes;
  }
};

// f.operator()<kTokens>(): how many of an expert's tokens a block keeps in registers.
template <class F>
void visit_held_tokens(int rows, F&& f) {
  if (rows <= 8) return f.template operator()<8>();
  if (rows <= 16) return f.template operator()<16>();
  f.template operator()<32>();
}

int stream_blocks(const gpu::Stream& stream) {
  if (gpu::using_portable_gemm() || std::getenv("TEPHRA_EXP_OFF")) return 0;
  const char* asked = std::getenv("TEPHRA_EXP_BLOCKS");
  return hopper::processors(stream) * (asked ? std::atoi(asked) : 1);
}

}  // namespace

bool stream_expert_up(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                      const DecodeLayer& l, const int32_t* chosen) {
  const int blocks = stream_blocks(stream);
  if (blocks == 0) return false;
  const bool few = rows <= kDecodeNormedRows;
  const DecodeInput input = few ? DecodeInput{nullptr, w.stream, l.mlp_norm, p.sizes.eps}
                                : DecodeInput{w.normed, nullptr, nullptr, 0};
  visit_stored(l.gate_up, [&]<class Stored>() {
    visit_depth(p.sizes.hidden, [&]<int kSteps>() {
      visit_held_tokens(rows, [&]<int kTokens>() {
        using Piece = hopper::SkinnyPiece<Stored, kSteps>;
        const int64_t normed = few ? int64_t{rows} * decode_shared_stride(p.sizes.hidden) * 2 : 0;
        const int64_t items = int64_t{std::min(rows, p.sizes.experts)} * p.sizes.expert_hidden /
                              (Piece::kTiles * gpu::kSkinnyRows);
        const StreamRoom room(p, 2 * gpu::blocks_for(items, blocks), Piece::kBytes,
                              normed + sizeof(ExpertStreamShared<2 * Piece::kTiles, kTokens>));
        const auto kernel = decode_stream_up<Stored, kSteps, kTokens>;
        stream.allow_shared(kernel, room.bytes);
        stream.launch_early(
            kernel, {.blocks = blocks, .threads = gpu::kSkinnyThreads, .shared_bytes = room.bytes},
            ExpertStream{l.gate_up.data, chosen, rows, p.sizes.experts, p.sizes.expert_hidden,
                         room.stages},
            input, w.activated);
      });
    });
  });
  return true;
}

bool stream_expert_down(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                        const DecodeLayer& l, const int32_t* chosen) {
  const int blocks = stream_blocks(stream);
  if (blocks == 0) return false;
  const DecodeMerged merged{l.after_mlp, w.stream, p.sizes.hidden};
  visit_stored(l.down, [&]<class Stored>() {
    visit_depth(p.sizes.expert_hidden, [&]<int kSteps>() {
      visit_held_tokens(rows, [&]<int kTokens>() {
        using Piece = hopper::SkinnyPiece<Stored, kSteps>;
        const int64_t items = int64_t{std::min(rows, p.sizes.experts)} * p.sizes.hidden /
                              (Piece::kTiles * gpu::kSkinnyRows);
        const StreamRoom room(p, gpu::blocks_for(items, blocks), Piece::kBytes,
                              sizeof(ExpertStreamShared<Piece::kTiles, kTokens>));
        const auto kernel = decode_stream_down<Stored, kSteps, kTokens>;
        stream.allow_shared(kernel, room.bytes);
        stream.launch_early(
            kernel, {.blocks = blocks, .threads = gpu::kSkinnyThreads, .shared_bytes = room.bytes},
            ExpertStream{l.down.data, chosen, rows, p.sizes.experts, p.sizes.hidden, room.stages},
            w.chosen_weight, w.activated, merged);
      });
    });
  });
  return true;
}

}  // namespace tephra::zaya1

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
  gpu::SkinnySums<kTiles, kTokens> sums[2];
  ExpertRows own;
  uint64_t arrived[16];
};

// A place in the list of all chosen experts' tiles, `each` of every expert.
struct ExpertPlace {
  uint32_t left;  // this expert and those to come
  int each, tile, expert;

  __device__ ExpertPlace(uint32_t experts, int each_expert, int item)
      : left(experts), each(each_expert), tile(item) {
    for (; tile >= each; tile -= each) left &= left - 1;  // without its lowest bit
    expert = __ffs(static_cast<int>(left)) - 1;
  }
  __device__ void advance() {
    if (++tile < each) return;
    tile = 0;
    left &= left - 1;
    expert = __ffs(static_cast<int>(left)) - 1;
  }
};

// A block's part of the list.
struct ExpertPart {
  ExpertPlace first;
  int count;

  __device__ ExpertPart(uint32_t experts, int each) : first(experts, each, cut(experts, each, 0)) {
    count = cut(experts, each, 1) - cut(experts, each, 0);
  }

 private:
  __device__ static int cut(uint32_t experts, int each, unsigned next) {
    return static_cast<int>(int64_t{__popc(experts) * each} * (blockIdx.x + next) / gridDim.x);
  }
};

// What a block asks for: kPieces for each place, row(place, i) being the first row of one.
template <class Piece, int kPieces, class Row>
class ExpertAsker {
 public:
  __device__ ExpertAsker(const ExpertStream& e, const ExpertPart& part,
                         hopper::PieceRing<Piece>& ring, const Row& row)
      : matrices_(e.matrices), ring_(ring), row_(row), next_(part.first), left_(part.count) {
    for (int i = 0; i + kPieces <= ring.stages(); i += kPieces) again();
  }
  // The place that was multiplied last has been read by all.
  __device__ void again() {
    if (left_ == 0) return;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) ring_.ask(matrices_, row_(next_, i));
    next_.advance();
    --left_;
  }

 private:
  const void* matrices_;
  hopper::PieceRing<Piece>& ring_;
  Row row_;
  ExpertPlace next_;
  int left_;
};

// Takes a block through its part. token(row): where a token begins. prepare(place, begin, at): what
// will write the sums of sixteen tokens from `begin` on, which lie from `at` on; made one place
// ahead where tokens stay in registers. Beyond kTokens they are read again for every place.
template <int kSteps, int kTokens, class Piece, int kPieces, class Row, class Shared, class Token,
          class Prepare>
__device__ void stream_experts(const ExpertPart& part, int rows, hopper::PieceRing<Piece>& ring,
                               ExpertAsker<Piece, kPieces, Row>& asker, Shared& shared,
                               const Token& token, const Prepare& prepare) {
  constexpr int kTiles = kPieces * Piece::kTiles, kGroup = gpu::kSkinnyTokens;
  using Held = hopper::SkinnyTokens<kSteps, kTokens>;
  ExpertRows& own = shared.own;
  Held held;
  ExpertPlace place = part.first;
  using Prepared = decltype(prepare(place, 0, 0));
  Prepared ready[Held::kGroups] = {};
  const auto prepare_held = [&](const ExpertPlace& at) {
#pragma unroll
    for (int g = 0; g < Held::kGroups; ++g) {
      if (g * kGroup < own.count) ready[g] = prepare(at, g * kGroup, g * kGroup);
    }
  };
  int expert = -1, buffer = 0;
  for (int n = 0; n < part.count; ++n) {
    const auto from = [&](int begin) {
      return [&own, &token, begin](int i) -> const bf16* {
        return begin + i < own.count ? token(own.row[begin + i]) : nullptr;
      };
    };
    if (place.expert != expert) {
      if (expert >= 0) __syncthreads();  // the rows of the one before have been read
      expert = place.expert;
      find_expert_rows(rows, expert, own);
      held.load(from(0));
      prepare_held(place);
    }
    ExpertPlace next = place;
    next.advance();
    Prepared finish[Held::kGroups];
#pragma unroll
    for (int g = 0; g < Held::kGroups; ++g) finish[g] = ready[g];
    if (next.expert == expert) prepare_held(next);
    const auto weights = ring.template take<kPieces>();
    if (Held::kGroups == 1 || own.count <= kGroup) {
      gpu::multiply_parts<kTiles, kSteps>(weights, held, shared.sums[buffer]);
    } else if constexpr (Held::kGroups > 1) {
      gpu::multiply_parts<kTiles, kSteps, Held::kGroups>(weights, held, shared.sums[buffer]);
    }
    __syncthreads();
    if (own.count <= kTokens) asker.again();
#pragma unroll
    for (int g = 0; g < Held::kGroups; ++g) {
      if (g * kGroup < own.count) finish[g](shared.sums[buffer]);
    }
    buffer ^= 1;
    for (int begin = kTokens; begin < own.count; begin += kGroup, buffer ^= 1) {
      const auto tokens = from(begin);
      const Prepared more = prepare(place, begin, 0);
      gpu::multiply_parts<kTiles, kSteps>(
          weights, gpu::SkinnyReader<kSteps, decltype(tokens)>(tokens), shared.sums[buffer]);
      __syncthreads();
      if (begin + kGroup >= own.count) asker.again();
      more(shared.sums[buffer]);
    }
    place = next;
  }
}

// Writes kWidth columns of the activations of up to sixteen tokens.
template <int kWidth>
struct WriteActivated {
  const ExpertRows* own;
  bf16* activated;
  int width, column, begin, at;

  template <class Sums>
  __device__ void operator()(const Sums& sums) const {
    const int count =
        own->count - begin < gpu::kSkinnyTokens ? own->count - begin : gpu::kSkinnyTokens;
    for (int i = static_cast<int>(threadIdx.x); i < count * kWidth; i += gpu::kSkinnyThreads) {
      const int token = i / kWidth, c = i % kWidth;
      activated[int64_t{own->row[begin + token]} * width + column + c] =
          decode_activated(sums.total(at + token, c), sums.total(at + token, kWidth + c));
    }
  }
};

// A place is kWidth columns of the activations: the gate's rows for them and the other's.
template <class Stored, int kSteps, int kTokens>
__global__ void __launch_bounds__(gpu::kSkinnyThreads)
    decode_stream_up(ExpertStream e, DecodeInput input, bf16* activated) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  using Piece = hopper::SkinnyPiece<Stored, kSteps>;
  constexpr int kWidth = Piece::kTiles * gpu::kSkinnyRows;
  auto& shared = *gpu::dynamic_shared<ExpertStreamShared<2 * Piece::kTiles, kTokens>>();
  auto* room = reinterpret_cast<std::byte*>(&shared + 1);
  hopper::PieceRing<Piece> ring(room, shared.arrived, e.stages);
  DecodeRowsReader reader(input, kSteps * gpu::kSkinnyColumns,
                          reinterpret_cast<gpu::Bits128*>(room + e.stages * Piece::kBytes));
  reader.ready(e.rows);  // what it reads is older than the kernel ahead
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  const uint32_t chosen = find_chosen(e.chosen, e.rows, shared.own);
  const ExpertPart part(only_experts(chosen, e.experts), e.width / kWidth);
  const auto row = [&e](const ExpertPlace& place, int i) {
    return (int64_t{place.expert} * 2 + i) * e.width + place.tile * kWidth;
  };
  ExpertAsker<Piece, 2, decltype(row)> asker(e, part, ring, row);
  stream_experts<kSteps, kTokens>(
      part, e.rows, ring, asker, shared, [&](int r) { return reader[r]; },
      [&](const ExpertPlace& place, int begin, int at) {
        return WriteActivated<kWidth>{&shared.own,         activated, e.width,
                                      place.tile * kWidth, begin,     at};
      });
#endif
}

// One element of the stream, read ahead.
struct WriteMerged {
  DecodeMerged::Column column;
  int row, token, c;
  float before, weight;
  bool mine;

  template <class Sums>
  __device__ void operator()(const Sums& sums) const {
    if (mine) column.write(row, before, bf16(float(bf16(sums.total(token, c))) * weight));
  }
};

// How many pieces the second product takes at once: few where a block has few.
template <class Piece, int kTokens>
constexpr int kDownPieces = kTokens > 8 && Piece::kTiles == 1 ? 2 : 1;

// A place is kWidth columns of the stream. The choice was made two kernels ahead, as in
// decode_experts_down, so the first pieces come while the kernel ahead runs.
template <class Stored, int kSteps, int kTokens>
__global__ void __launch_bounds__(gpu::kSkinnyThreads)
    decode_stream_down(ExpertStream e, const float* chosen_weight, const bf16* activated,
                       DecodeMerged merged) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  using Piece = hopper::SkinnyPiece<Stored, kSteps>;
  constexpr int kPieces = kDownPieces<Piece, kTokens>, kTiles = kPieces * Piece::kTiles;
  constexpr int kWidth = kTiles * gpu::kSkinnyRows, kDepth = kSteps * gpu::kSkinnyColumns;
  static_assert(gpu::kSkinnyTokens * kWidth <= gpu::kSkinnyThreads, "a thread has one element");
  auto& shared = *gpu::dynamic_shared<ExpertStreamShared<kTiles, kTokens>>();
  hopper::PieceRing<Piece> ring(reinterpret_cast<std::byte*>(&shared + 1), shared.arrived,
                                e.stages);
  const uint32_t chosen = find_chosen(e.chosen, e.rows, shared.own);
  const ExpertPart part(only_experts(chosen, e.experts), e.width / kWidth);
  const auto row = [&e](const ExpertPlace& place, int i) {
    return int64_t{place.expert} * e.width + place.tile * kWidth + i * (kWidth / kPieces);
  };
  ExpertAsker<Piece, kPieces, decltype(row)> asker(e, part, ring, row);
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
  stream_experts<kSteps, kTokens>(
      part, e.rows, ring, asker, shared, [&](int r) { return activated + int64_t{r} * kDepth; },
      [&](const ExpertPlace& place, int begin, int at) {
        const int token = static_cast<int>(threadIdx.x) / kWidth;
        const int c = static_cast<int>(threadIdx.x) % kWidth;
        const bool mine = token < gpu::kSkinnyTokens && begin + token < shared.own.count;
        const int row = mine ? shared.own.row[begin + token] : 0;
        const DecodeMerged::Column column = merged.column(place.tile * kWidth + c);
        const float before = mine ? column.before(row) : 0.0f;
        const float weight = mine ? chosen_weight[row] : 0.0f;
        return WriteMerged{column, row, at + token, c, before, weight, mine};
      });
#endif
}

// How many pieces a block has on their way: as many as it has, or as there is room for.
struct StreamRoom {
  int stages;
  int64_t bytes;

  StreamRoom(const DecodePlan& p, int64_t pieces, int64_t piece_bytes, int64_t other_bytes) {
    static const int64_t most = gpu::most_shared_bytes(p.device) - 1024;  // what is static
    constexpr int64_t kMost = 16;
    stages = static_cast<int>(std::min({pieces, (most - other_bytes) / piece_bytes, kMost}));
    bytes = stages * piece_bytes + other_bytes;
  }
};

// f.operator()<kTokens>(): how many of an expert's tokens a block keeps in registers.
template <class F>
void visit_held_tokens(int rows, F&& f) {
  if (rows <= 8) return f.template operator()<8>();
  if (rows <= 64) return f.template operator()<16>();
  f.template operator()<32>();
}

int stream_blocks(const gpu::Stream& stream) {
  return gpu::only_portable() ? 0 : hopper::processors(stream);
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
        constexpr int kPieces = kDownPieces<Piece, kTokens>, kTiles = kPieces * Piece::kTiles;
        const int64_t items =
            int64_t{std::min(rows, p.sizes.experts)} * p.sizes.hidden / (kTiles * gpu::kSkinnyRows);
        const StreamRoom room(p, kPieces * gpu::blocks_for(items, blocks), Piece::kBytes,
                              sizeof(ExpertStreamShared<kTiles, kTokens>));
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

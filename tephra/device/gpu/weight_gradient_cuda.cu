// SPDX-License-Identifier: Apache-2.0
// Weight gradients of experts for Hopper. In a persistent block of 384 threads one thread deals
// tiles, one feeds a ring of stages through the copy engine, and two warpgroups multiply: in turns,
// 128 x 192 each, so that one tile's sums leave while the next is multiplied; or together, 128 x
// 256, where an expert has so many rows that the way out is nothing beside them. Sums leave through
// the copy engine, which adds them in the L2 cache (once for each element, so in one order). Rows
// past an expert's end are zeroed in shared memory. Widths need not be whole tiles: past the edges
// the copy engine reads zeros and writes nothing.
#include <cstddef>

#include "tephra/device/gpu/grouped_gemm.h"
#include "tephra/device/gpu/hopper.h"
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/device/gpu/hopper_ring.h"

namespace tephra::gpu {
namespace weight_gradient {
namespace {

using namespace hopper;

constexpr int kWide = 192, kNarrow = 128;  // columns of a warpgroup's tile
constexpr int kTurnStages = 5;             // of the ring for such tiles
constexpr int kSlots = 4;                  // for tiles that are dealt and not yet begun
constexpr int kMostExperts = 256;
constexpr int64_t kFewRows = 768;  // for each expert: with fewer, tiles are mostly way out

struct Shape {
  int experts, out_rows, columns;
  bool accumulate;
};

struct alignas(16) Tile {
  int expert, begin, rows;  // the expert's rows in the row matrices
  int row, column, width;   // in its gradient; of width 0: there is none
  int stage;                // where it begins in the ring
  uint32_t phase;
  __device__ bool together() const { return width == kTileColumns; }
};

// An expert's place in the order of work.
struct Place {
  uint8_t expert;
  bool together;  // its tiles are both warpgroups'
};

// What the ring is made of when warpgroups take turns: more stages of fewer columns.
struct Turns {
  alignas(1024) uint8_t a[kTurnStages][kBytesA];
  alignas(1024) uint8_t b[kTurnStages][kWide * kDepth * 2];
  alignas(1024) uint8_t c[2][1][kBox];  // of each warpgroup, on its way out
};

struct Room {
  union {
    Stages both;
    Turns turns;  // leaves the barriers of `both` alone
  };
  uint64_t full[kTurnStages], empty[kTurnStages];  // of turns
  uint64_t posted[kSlots], taken[kSlots], fed, changed, turn[2];
  Tile tiles[kSlots];
  Place order[kMostExperts];
};
static_assert(sizeof(Turns) <= offsetof(Stages, full));
// A warpgroup's box in turns is one of its own when both work together: zeros leave without a word
// to the other.
static_assert(offsetof(Turns, c) == offsetof(Stages, c) + kBox);
constexpr int kRoomBytes = sizeof(Room) + 1024;
static_assert(kRoomBytes <= 227 * 1024);

// How an expert's gradient is cut: in tiles of both warpgroups, or in wide ones, and a column of
// narrow ones where these are enough for the rest.
struct Cuts {
  __device__ Cuts(const Shape& shape, bool together)
      : down(tiles_of(shape.out_rows, kTileRows)),
        first(together ? tiles_of(shape.columns, kTileColumns)
                       : (shape.columns + kWide - kNarrow - 1) / kWide),
        width(together ? kTileColumns : kWide),
        narrow(first * width < shape.columns ? 1 : 0) {}
  __device__ int tiles() const { return down * (first + narrow); }
  int down;          // rows of tiles
  int first, width;  // columns of tiles, and how wide these are
  int narrow;        // columns of narrow ones behind them
};

// What a stage of a tile costs, and the way out that nothing hides, in some 32 cycles. Narrow tiles
// have two thirds of a wide one's products, and more bytes for each.
constexpr float kWideCost = 24, kNarrowCost = 17, kTogetherCost = 33, kWayOut = 180;
constexpr int kDeep = 128;  // stages, beside which a way out is nothing

// In which order experts come, and how they are cut. First those whose tiles are both warpgroups':
// experts with very many rows, and those on which some blocks would still be at work with wide
// tiles when all others are done with everything. Then those with many rows and with few in turn,
// since small ones all together wait for memory, the one with the fewest last. Experts without
// rows are left out where there is nothing to add: the number of experts that are left.
__device__ int plan(Room& s, const int32_t* offsets, const Shape& shape) {
  int* rows = reinterpret_cast<int*>(&s.turns);  // which nobody uses yet
  for (int e = static_cast<int>(threadIdx.x); e < shape.experts; e += kRingThreads) {
    rows[e] = offsets[e + 1] - offsets[e];
  }
  __syncthreads();
  const float blocks = static_cast<float>(gridDim.x);
  const Cuts turns(shape, false), both(shape, true);
  const float wide_rounds = kWideCost * ceilf(turns.down * turns.first / blocks);
  const float both_rounds = ceilf(both.tiles() / blocks);
  const float a_stage = (kWideCost * turns.first + kNarrowCost * turns.narrow) * turns.down;
  int stages = 0, count = 0;
  for (int e = 0; e < shape.experts; ++e) {
    stages += tiles_of(rows[e], kDepth);
    count += rows[e] > 0 || !shape.accumulate;
  }
  const float mean = a_stage * stages / blocks;
  const auto together = [&](int of) {
    const int own = tiles_of(of, kDepth);
    const float in_turns = own * wide_rounds;
    const float at_once = (own * kTogetherCost + kWayOut) * both_rounds;
    return own >= kDeep || (in_turns > mean && at_once < in_turns);
  };
  for (int e = static_cast<int>(threadIdx.x); e < shape.experts; e += kRingThreads) {
    int rank = 0, deep = 0;
    for (int other = 0; other < shape.experts; ++other) {
      rank += rows[other] > rows[e] || (rows[other] == rows[e] && other < e);
      deep += together(rows[other]);
    }
    if (rank >= count) continue;
    const int in_turn = rank - deep, last = count - deep - 1;
    const int at = in_turn < 0 || in_turn == last ? in_turn
                   : 2 * in_turn < last           ? 2 * in_turn
                                                  : 2 * (last - 1 - in_turn) + 1;
    s.order[deep + at] = {static_cast<uint8_t>(e), in_turn < 0};
  }
  publish_stores();  // the copy engine is next to write here
  return count;
}

// The tiles of all experts in their order: most of them to all blocks in turn, neighbours beside
// each other, and the last ones to whichever block is free. Where one expert has most rows, every
// second block begins with the others: their tiles are mostly way out, for which memory has no time
// when all blocks come to them at once.
class Deal {
 public:
  __device__ Deal(const Place* order, int count, const int32_t* offsets, const Shape& shape,
                  uint32_t* counter)
      : order_(order),
        offsets_(offsets),
        shape_(shape),
        turns_(Cuts(shape, false).tiles()),
        both_(Cuts(shape, true).tiles()),
        counter_(counter) {
    for (int i = 0; i < count; ++i) all_ += tiles_at(i);
    rounds_ = all_ * 7 / 8 / gridDim.x;
    backwards_ =
        blockIdx.x % 2 == 1 && count > 0 && order[0].together && !order[count - 1].together;
  }

  // False when there is none left.
  __device__ bool advance(Tile& tile) {
    const uint32_t taken = round_ >= rounds_ ? rounds_ * gridDim.x + atomicAdd(counter_, 1u)
                           : backwards_      ? (rounds_ - 1 - round_) * gridDim.x + blockIdx.x
                                             : round_ * gridDim.x + blockIdx.x;
    ++round_;
    if (taken >= all_) {
      // Every block asks once too often: the last of all leaves the counter as it found it.
      if (taken == all_ + gridDim.x - 1) *counter_ = 0;
      return false;
    }
    while (taken < before_) before_ -= tiles_at(--place_);
    for (; taken - before_ >= tiles_at(place_); ++place_) before_ += tiles_at(place_);
    const Cuts cuts(shape_, order_[place_].together);
    const int at = static_cast<int>(taken - before_), first = cuts.down * cuts.first;
    tile.expert = order_[place_].expert;
    tile.begin = __ldg(offsets_ + tile.expert);
    tile.rows = __ldg(offsets_ + tile.expert + 1) - tile.begin;
    tile.row = (at < first ? at / cuts.first : at - first) * kTileRows;
    tile.column = (at < first ? at % cuts.first : cuts.first) * cuts.width;
    tile.width = at < first ? cuts.width : kNarrow;
    return true;
  }

 private:
  __device__ uint32_t tiles_at(int place) const {
    return static_cast<uint32_t>(order_[place].together ? both_ : turns_);
  }

  const Place* order_;
  const int32_t* offsets_;
  const Shape& shape_;
  const int turns_, both_;  // tiles of an expert
  uint32_t* counter_;
  int place_ = 0;
  uint32_t before_ = 0;  // tiles of the experts before this one
  uint32_t all_ = 0, round_ = 0, rounds_;
  bool backwards_;
};

// One thread: posts this block's tiles, the next while one is fed.
__device__ void deal_tiles(Room& s, int count, const int32_t* offsets, const Shape& shape,
                           uint32_t* counter) {
  Deal deal(s.order, count, offsets, shape, counter);
  Ring<kSlots> slot;
  Ring<1> fed;
  Position both;
  Ring<kTurnStages> turns;
  const auto place = [](Tile& tile, auto& at) {  // and past it
    tile.stage = at.stage;
    tile.phase = at.phase;
    at.skip(tiles_of(tile.rows, kDepth));
  };
  Tile tile{};
  for (bool more = true; more;) {
    more = deal.advance(tile);
    if (!more) tile.width = 0;
    if (tile.together()) {
      place(tile, both);
    } else {
      place(tile, turns);
    }
    wait_barrier(&s.taken[slot.stage], slot.phase ^ 1);
    s.tiles[slot.stage] = tile;
    arrive(&s.posted[slot.stage]);
    slot.advance();
    wait_barrier(&s.fed, fed.phase);
    fed.advance();
  }
}

// Fills the stages of a ring with a tile's operands.
template <int kStages, class Ringed>
__device__ void feed_tile(const Tile& tile, Ring<kStages>& at, Ringed& ring, uint64_t* full,
                          uint64_t* empty, const CUtensorMap* map_a, const CUtensorMap* map_b) {
  for (int k = 0; k * kDepth < tile.rows; ++k, at.advance()) {
    wait_barrier(&empty[at.stage], at.phase ^ 1);
    expect_bytes(&full[at.stage], (kTileRows + tile.width) * kDepth * 2);
    const int row = tile.begin + k * kDepth;
    for (int i = 0; i < kTileRows / 64; ++i) {
      copy_tile(ring.a[at.stage] + i * kBox, map_a, &full[at.stage], tile.row + 64 * i, row, 0);
    }
    for (int i = 0; i < tile.width / 64; ++i) {
      copy_tile(ring.b[at.stage] + i * kBox, map_b, &full[at.stage], tile.column + 64 * i, row, 0);
    }
  }
}

// One thread: feeds this block's tiles.
__device__ void feed_tiles(Room& s, const CUtensorMap* map_a, const CUtensorMap* map_b) {
  Position both;
  Ring<kTurnStages> turns;
  Ring<1> changed;
  bool together = false;
  for (Ring<kSlots> slot;; slot.advance()) {
    wait_barrier(&s.posted[slot.stage], slot.phase);
    const Tile tile = s.tiles[slot.stage];
    arrive(&s.taken[slot.stage]);
    arrive(&s.fed);
    if (tile.width == 0) return;
    if (tile.together() != together) {
      wait_barrier(&s.changed, changed.phase);
      changed.advance();
      together = !together;
    }
    if (together) {
      feed_tile(tile, both, s.both, s.both.full, s.both.empty, map_a, map_b);
    } else {
      feed_tile(tile, turns, s.turns, s.full, s.empty, map_a, map_b);
    }
  }
}

using TurnOutlet = OutletOf<1>;

// What an expert without rows has.
__device__ void leave_zeros(const Tile& tile, const TurnOutlet& out, const CUtensorMap* map) {
  for (int half = 0; half < 2; ++half) {
    for (int part = 0; part < tile.width / kSumColumns; ++part) {
      out.pass(
          part, [&](uint8_t* box) { clear_rows(box, 1, 0, out.warpgroup); },
          [&](uint8_t* box) {
            store_tile(map, box, tile.column + kSumColumns * part, tile.row + 64 * half,
                       tile.expert);
          });
    }
  }
}

// Each warp hands on for itself: one that still waits for this turn must not miss two.
__device__ void pass_turn(Room& s, int warpgroup) {
  if (threadIdx.x % 32 == 0) arrive(&s.turn[1 - warpgroup]);
}

// A warpgroup's tile of an expert that has rows. Stages are multiplied in halves: while the first
// half of one is multiplied, its predecessor goes back and its successor is looked for.
// `wait_for_turn` is called when the sums are zeros.
template <int kSums, class Wait>
__device__ void multiply_tile(Room& s, const Tile& tile, const TurnOutlet& out,
                              const CUtensorMap* map, bool accumulate, Wait wait_for_turn) {
  const int last = tiles_of(tile.rows, kDepth) - 1, tail = tile.rows - last * kDepth;
  const bool first_thread = threadIdx.x % kWarpgroup == 0;
  float upper[kSums] = {}, lower[kSums] = {};
  pin(upper);
  pin(lower);
  wait_for_turn();
  Ring<kTurnStages> at{tile.stage, tile.phase};
  int before = -1;
  bool there = false;
  for (int k = 0; k <= last; ++k) {
    if (!there) wait_barrier(&s.full[at.stage], at.phase);
    uint8_t* a = s.turns.a[at.stage];
    if (k == last && tail < kDepth) clear_rows(a, 2, tail, out.warpgroup);
    const uint64_t above = tile_across(a, kBox), right = tile_across(s.turns.b[at.stage], kBox);
    const auto both = [&](int step) {
      const uint64_t left = above + step * kStep<true>, b = right + step * kStep<true>;
      multiply_16<true, true>(upper, left, b, 1);
      multiply_16<true, true>(lower, left + kBox / 16, b, 1);
    };
    begin_products();
    both(0);
    both(1);
    commit_products();
    if (before >= 0) {
      wait_products<1>();
      if (first_thread) arrive(&s.empty[before]);
    }
    before = at.stage;
    at.advance();
    there = k < last && passed_barrier(&s.full[at.stage], at.phase);
    if (k == last) pass_turn(s, out.warpgroup);
    begin_products();
    both(2);
    both(3);
    commit_products();
  }
  wait_products<0>();
  if (first_thread) arrive(&s.empty[before]);
  store_f32(upper, out, map, tile.row, tile.column, tile.expert, accumulate);
  store_f32(lower, out, map, tile.row + 64, tile.column, tile.expert, accumulate);
}

// A warpgroup's half of a tile that both multiply.
__device__ void multiply_half(Room& s, const Tile& tile, const Outlet& out, const CUtensorMap* map,
                              bool accumulate) {
  float d[128] = {};  // set, or the compiler spills
  Position at{tile.stage, tile.phase};
  const int stages = tiles_of(tile.rows, kDepth);
  const int last =
      multiply_stages<true, true>(d, s.both, at, stages, out.warpgroup, [&](int k, uint8_t* a) {
        const int rows = tile.rows - k * kDepth;
        if (rows < kDepth) clear_rows(a, 1, rows, out.warpgroup);
      });
  release_stage(s.both, last);
  store_f32(d, out, map, tile.row + 64 * out.warpgroup, tile.column, tile.expert, accumulate);
}

// A warpgroup: its share of this block's tiles.
__device__ void multiply_tiles(Room& s, const CUtensorMap* map, bool accumulate) {
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  const bool first_thread = threadIdx.x % kWarpgroup == 0;
  const Outlet together_out{s.both.c[warpgroup], warpgroup};
  const TurnOutlet out{s.turns.c[warpgroup], warpgroup};
  uint32_t turns = 0;  // of both, so far
  bool together = false;
  for (Ring<kSlots> slot;; slot.advance()) {
    wait_barrier(&s.posted[slot.stage], slot.phase);
    const Tile tile = s.tiles[slot.stage];
    arrive(&s.taken[slot.stage]);
    if (tile.width == 0) break;
    if (tile.together() != together) {
      together = !together;
      if (first_thread) {  // this warpgroup has done with the other ring
        wait_stores<0>();
        arrive(&s.changed);
      }
    }
    if (together) {
      multiply_half(s, tile, together_out, map, accumulate);
      continue;
    }
    const uint32_t turn = turns++;
    if (static_cast<int>(turn % 2) != warpgroup) continue;
    // The ring is read in order: a barrier's phase says nothing to one who is two rounds behind.
    const auto wait_for_turn = [&] {
      if (turn > 0) wait_barrier(&s.turn[warpgroup], ((turn - 1) / 2) & 1);
    };
    if (tile.rows == 0) {
      wait_for_turn();
      pass_turn(s, warpgroup);
      leave_zeros(tile, out, map);
    } else if (tile.width == kWide) {
      multiply_tile<kWide / 2>(s, tile, out, map, accumulate, wait_for_turn);
    } else {
      multiply_tile<kNarrow / 2>(s, tile, out, map, accumulate, wait_for_turn);
    }
  }
  if (first_thread) wait_stores<0>();
}

__global__ void __launch_bounds__(kRingThreads, 1)
    weight_gradient_kernel(const __grid_constant__ CUtensorMap map_a,
                           const __grid_constant__ CUtensorMap map_b,
                           const __grid_constant__ CUtensorMap map_c, const int32_t* offsets,
                           const __grid_constant__ Shape shape, uint32_t* counter) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  Room& s = reinterpret_cast<Room&>(prepared_stages());
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) {
      init_barrier(&s.posted[i], 1);
      init_barrier(&s.taken[i], 2 * kWarpgroup + 1);
    }
    for (int i = 0; i < 2; ++i) init_barrier(&s.turn[i], kWarpgroup / 32);
    for (int i = 0; i < kTurnStages; ++i) {
      init_barrier(&s.full[i], 1);
      init_barrier(&s.empty[i], 1);
    }
    init_barrier(&s.fed, 1);
    init_barrier(&s.changed, 2);
    publish_barriers();
  }
  const int count = plan(s, offsets, shape);
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    give_registers<40>();
    if (threadIdx.x == 0) feed_tiles(s, &map_a, &map_b);
    if (threadIdx.x == 32) deal_tiles(s, count, offsets, shape, counter);
  } else {
    take_registers<232>();
    multiply_tiles(s, &map_c, shape.accumulate);
  }
#endif
}

}  // namespace
}  // namespace weight_gradient

bool weight_gradient_in_turns(Stream& stream, const GroupedGemm& g, int processors) {
  using namespace weight_gradient;
  const Matrices a{g.a, g.out, g.rows, g.a_stride, 1, 64};
  const Matrices b{g.b, g.in, g.rows, g.b_stride, 1, 64};
  const Matrices c{g.c, g.in, g.out, g.in, g.experts, 64, true};
  if (!a.aligned() || !b.aligned() || !c.aligned()) return false;
  if (g.experts > kMostExperts || g.rows < kFewRows * g.experts) return false;
  const weight_gradient::Shape shape{g.experts, static_cast<int>(g.out), static_cast<int>(g.in),
                                     g.accumulate};
  static const cudaError_t sized = cudaFuncSetAttribute(
      weight_gradient_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoomBytes);
  check(sized, "reserving shared memory");
  stream.launch(weight_gradient_kernel,
                {.blocks = processors, .threads = kRingThreads, .shared_bytes = kRoomBytes},
                a.describe(), b.describe(), c.describe(), g.offsets, shape, stream.counter());
  return true;
}

}  // namespace tephra::gpu

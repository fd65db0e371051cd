// SPDX-License-Identifier: Apache-2.0
// Weight gradients of experts for Hopper. Persistent blocks of 384 threads work in pairs at tiles
// one above the other, and each brings half of the right operand for both. In a block one thread
// deals tiles, one feeds a ring of stages through the copy engine, and two warpgroups multiply: in
// turns, 128 x 192 or 192 x 128 each, so that one tile's sums leave while the next is multiplied;
// or together, 128 x 256, where an expert has so many rows that the way out is nothing beside them.
// Sums leave through the copy engine, which adds them in the L2 cache (once for each element, so in
// one order). Rows past an expert's end are zeroed in shared memory. Widths need not be whole
// tiles: past the edges the copy engine reads zeros and writes nothing.
//
// Who waits for whom: what a stage of a tile needs is done by somebody at an earlier tile or stage,
// of either block, or on reaching this tile (`changed`, `told`); tiles have at least one stage. A
// barrier is not passed twice before all who wait for it have looked: see `changed` and `turn`.
#include "tephra/device/gpu/grouped_gemm.h"
#include "tephra/device/gpu/hopper.h"
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/device/gpu/hopper_ring.h"

namespace tephra::gpu {
namespace weight_gradient {
namespace {

using namespace hopper;

constexpr int kPair = 2;
constexpr int kLong = 192, kShort = 128;  // sides of a warpgroup's own tile
constexpr int kBand = kPair * kTileRows;  // rows of a pair's wide tile
constexpr int kTall = kPair * kLong;      // and of its tall one
constexpr int kGroup = 3 * kBand;         // are two of these
static_assert(kGroup == 2 * kTall);
constexpr int kTurnStages = 5, kTogetherStages = 4;        // of the ring
constexpr int kTurnBytes = (kLong + kShort) * kDepth * 2;  // of a stage
constexpr int kTogetherBytes = (kTileRows + kTileColumns) * kDepth * 2;
constexpr int kSlots = 4;  // for tiles that are dealt and not yet begun
constexpr int kMostExperts = 256;
constexpr int64_t kFewRows = 768;  // for each expert: with fewer, tiles are mostly way out

struct Shape {
  int experts, out_rows, columns;
  bool accumulate;
};

enum class Form : int { none, wide, tall, together };  // none: there is no tile left

struct alignas(16) Tile {
  int expert, begin, rows;  // the expert's rows in the row matrices: one at least
  int row, column;          // in its gradient, of this block's part
  Form form;
  int stage;  // where it begins in the ring
  uint32_t phase;
  __device__ bool together() const { return form == Form::together; }
  __device__ int height() const { return form == Form::tall ? kLong : kTileRows; }
  __device__ int width() const {
    return form == Form::wide ? kLong : form == Form::tall ? kShort : kTileColumns;
  }
};

// An expert's place in the order of work.
struct Place {
  uint8_t expert;
  bool together;  // its tiles are both warpgroups'
};

template <int kStages>
struct Barriers {
  uint64_t full[kStages], empty[kStages];
};

struct Room {
  // The ring, of one or the other kind of stages: the left operand's boxes, then the right one's.
  alignas(1024) uint8_t stages[kTurnStages * kTurnBytes];
  alignas(1024) uint8_t leaving[2][kBox];  // of each warpgroup
  Barriers<kTurnStages> turns;
  Barriers<kTogetherStages> both;
  uint64_t posted[kSlots], taken[kSlots], fed, turn[2];
  uint64_t changed;      // both blocks' warpgroups have done with the other kind of stages
  uint64_t told, heard;  // the second block of its number, the first that it was read
  uint32_t number;
  Tile tiles[kSlots];
  Place order[kMostExperts];
};
static_assert(kTogetherStages * kTogetherBytes <= kTurnStages * kTurnBytes);
constexpr int kRoomBytes = sizeof(Room) + 1024;
static_assert(kRoomBytes <= 227 * 1024);

// Of the blocks of a pair.
__device__ int rank() { return static_cast<int>(blockIdx.x) % kPair; }

// How an expert's gradient is cut: in tiles of both warpgroups, or in wide ones, and tall ones
// where their width is enough for the rest of the columns. Both of the same rows come together:
// what they share need not be read twice.
struct Cuts {
  __device__ Cuts(const Shape& shape, bool together)
      : form(together ? Form::together : Form::wide),
        width(together ? kTileColumns : kLong),
        across(together ? tiles_of(shape.columns, kTileColumns)
                        : (shape.columns + kLong - kShort - 1) / kLong),
        tall(across * width < shape.columns),
        rows(shape.out_rows) {}
  __device__ int tiles() const {
    return rows / kGroup * in_group(kGroup) + in_group(rows % kGroup);
  }
  __device__ void place(int at, Tile& tile) const {
    const int group = at / in_group(kGroup), top = group * kGroup;
    const int in = at - group * in_group(kGroup);
    const int first = across * tiles_of(min(rows - top, kGroup), kBand);
    const bool rest = in >= first;
    tile.form = rest ? Form::tall : form;
    tile.column = (rest ? across : in % across) * width;
    tile.row = top + (rest ? (in - first) * kTall : in / across * kBand) + rank() * tile.height();
  }
  Form form;
  int width, across;  // of the tiles of that form; how many in a row
  bool tall;          // there are others behind them
  int rows;

 private:
  __device__ int in_group(int of_rows) const {
    return across * tiles_of(of_rows, kBand) + (tall ? tiles_of(of_rows, kTall) : 0);
  }
};

// What a stage of a tile costs, and the way out that nothing hides, in some 32 cycles.
constexpr float kTurnCost = 25, kTogetherCost = 33, kWayOut = 180;
constexpr int kDeep = 128;  // stages, beside which a way out is nothing

// In which order experts come, and how they are cut. First those whose tiles are both warpgroups':
// experts with very many rows, and those on which some blocks would still be at work with tiles of
// their own when all others are done with everything. Then those with many rows and with few in
// turn, since small ones all together wait for memory, the one with the fewest last. Experts
// without rows are left out: the number of experts that are left.
__device__ int plan(Room& s, const int32_t* offsets, const Shape& shape) {
  int* rows = reinterpret_cast<int*>(s.stages);  // which nobody uses yet
  for (int e = static_cast<int>(threadIdx.x); e < shape.experts; e += kRingThreads) {
    rows[e] = offsets[e + 1] - offsets[e];
  }
  __syncthreads();
  const float pairs = static_cast<float>(gridDim.x / kPair);
  const Cuts turns(shape, false), both(shape, true);
  const float turn_rounds = ceilf(turns.tiles() / pairs);
  const float both_rounds = ceilf(both.tiles() / pairs);
  int stages = 0, count = 0;
  for (int e = 0; e < shape.experts; ++e) {
    stages += tiles_of(rows[e], kDepth);
    count += rows[e] > 0;
  }
  const float mean = kTurnCost * turns.tiles() * stages / pairs;
  const auto together = [&](int of) {
    const int own = tiles_of(of, kDepth);
    const float in_turns = own * kTurnCost * turn_rounds;
    const float at_once = (own * kTogetherCost + kWayOut) * both_rounds;
    return own >= kDeep || (in_turns > mean && at_once < in_turns);
  };
  for (int e = static_cast<int>(threadIdx.x); e < shape.experts; e += kRingThreads) {
    int larger = 0, deep = 0;
    for (int other = 0; other < shape.experts; ++other) {
      larger += rows[other] > rows[e] || (rows[other] == rows[e] && other < e);
      deep += together(rows[other]);
    }
    if (larger >= count) continue;
    const int in_turn = larger - deep, last = count - deep - 1;
    const int at = in_turn < 0 || in_turn == last ? in_turn
                   : 2 * in_turn < last           ? 2 * in_turn
                                                  : 2 * (last - 1 - in_turn) + 1;
    s.order[deep + at] = {static_cast<uint8_t>(e), in_turn < 0};
  }
  publish_stores();  // the copy engine is next to write here
  return count;
}

// The pair's numbers: the first block takes them from the counter and tells the second.
class Numbers {
 public:
  __device__ Numbers(Room& s, uint32_t* counter) : s_(s), counter_(counter) {}
  __device__ uint32_t next() {
    uint32_t number;
    if (rank() == 0) {
      number = atomicAdd(counter_, 1u);
      wait_barrier_of_cluster(&s_.heard, at_.phase ^ 1);
      store_in_cluster(&s_.number, number, 1);
      arrive_in_cluster_after_stores(&s_.told, 1);
    } else {
      wait_barrier_of_cluster(&s_.told, at_.phase);
      number = *const_cast<volatile uint32_t*>(&s_.number);
      arrive_in_cluster_after_stores(&s_.heard, 0);
    }
    at_.advance();
    return number;
  }
  // By whoever took the last number of all.
  __device__ void reset() {
    if (rank() == 0) *counter_ = 0;
  }

 private:
  Room& s_;
  uint32_t* counter_;
  Ring<1> at_;
};

// The tiles of all experts in their order. Those of both warpgroups are dealt to the pairs in turn,
// all others go to whichever pair is free. Where there are both, half of the pairs turn to the
// others before the last round of the former, and half after it: such tiles are mostly way out, for
// which memory has no time when all come to them at once.
class Deal {
 public:
  __device__ Deal(const Place* order, int count, const int32_t* offsets, const Shape& shape,
                  Numbers numbers)
      : order_(order),
        offsets_(offsets),
        shape_(shape),
        turns_(Cuts(shape, false).tiles()),
        both_(Cuts(shape, true).tiles()),
        numbers_(numbers) {
    for (int i = 0; i < count; ++i) {
      all_ += tiles_at(i);
      if (order[i].together) deep_ = all_;
    }
    const uint32_t rounds = (deep_ + pairs_ - 1) / pairs_;
    own_ = pair_ < deep_ ? (deep_ - 1 - pair_) / pairs_ + 1 : 0;
    first_ = min(own_, 2 * pair_ < pairs_ ? rounds - 1 : rounds);
    between_ = own_ == 0 ? 0 : (all_ - deep_) * 7 / 8 / pairs_;
  }

  // False when there is none left.
  __device__ bool advance(Tile& tile) {
    uint32_t taken;
    for (;;) {
      const uint32_t step = step_++;
      if (step < first_ || (step >= first_ + between_ && step < own_ + between_)) {
        taken = (step < first_ ? step : step - between_) * pairs_ + pair_;
        break;
      }
      if (!dry_) {
        taken = deep_ + numbers_.next();
        if (taken < all_) break;
        dry_ = true;  // every pair asks once too often
        if (taken == all_ + pairs_ - 1) numbers_.reset();
      }
      if (step >= own_ + between_) return false;
    }
    while (taken < before_) before_ -= tiles_at(--place_);
    for (; taken - before_ >= tiles_at(place_); ++place_) before_ += tiles_at(place_);
    tile.expert = order_[place_].expert;
    tile.begin = __ldg(offsets_ + tile.expert);
    tile.rows = __ldg(offsets_ + tile.expert + 1) - tile.begin;
    Cuts(shape_, order_[place_].together).place(static_cast<int>(taken - before_), tile);
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
  Numbers numbers_;
  const uint32_t pairs_ = gridDim.x / kPair, pair_ = blockIdx.x / kPair;
  int place_ = 0;
  uint32_t before_ = 0;          // tiles of the experts before this one
  uint32_t all_ = 0, deep_ = 0;  // tiles; of both warpgroups
  uint32_t own_, first_;         // of the latter this pair's, and with how many it begins
  uint32_t between_;             // others that come ahead of the rest
  uint32_t step_ = 0;
  bool dry_ = false;
};

// One thread: posts this block's tiles, the next while one is fed.
__device__ void deal_tiles(Room& s, int count, const int32_t* offsets, const Shape& shape,
                           uint32_t* counter) {
  Deal deal(s.order, count, offsets, shape, Numbers(s, counter));
  Ring<kSlots> slot;
  Ring<1> fed;
  Ring<kTogetherStages> both;
  Ring<kTurnStages> turns;
  const auto place = [](Tile& tile, auto& at) {  // and past it
    tile.stage = at.stage;
    tile.phase = at.phase;
    at.skip(tiles_of(tile.rows, kDepth));
  };
  Tile tile{};
  for (bool more = true; more;) {
    more = deal.advance(tile);
    if (!more) tile.form = Form::none;
    if (tile.together()) {
      place(tile, both);
    } else if (more) {
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

// Fills stages of the ring with a tile's operands: this block's left one, and half of the right
// one's boxes for both blocks.
template <int kBytes, int kStages>
__device__ void feed_tile(Room& s, Barriers<kStages>& ring, Ring<kStages>& at, const Tile& tile,
                          const CUtensorMap* map_a, const CUtensorMap* map_b) {
  const int left = tile.height() / 64, right = tile.width() / 64;
  for (int k = 0; k * kDepth < tile.rows; ++k, at.advance()) {
    uint64_t* full = &ring.full[at.stage];
    wait_barrier(&ring.empty[at.stage], at.phase ^ 1);
    expect_bytes(full, (left + right) * kBox);
    uint8_t* boxes = s.stages + at.stage * kBytes;
    const int row = tile.begin + k * kDepth;
    for (int i = 0; i < left; ++i, boxes += kBox) {
      copy_tile(boxes, map_a, full, tile.row + 64 * i, row, 0);
    }
    for (int i = 0; i < right; ++i, boxes += kBox) {
      if ((i + k) % kPair == rank()) {
        copy_tile_to_cluster(boxes, map_b, full, tile.column + 64 * i, row, (1 << kPair) - 1);
      }
    }
  }
}

// One thread: feeds this block's tiles.
__device__ void feed_tiles(Room& s, const CUtensorMap* map_a, const CUtensorMap* map_b) {
  Ring<kTogetherStages> both;
  Ring<kTurnStages> turns;
  Ring<1> changed;
  bool together = false;
  for (Ring<kSlots> slot;; slot.advance()) {
    wait_barrier(&s.posted[slot.stage], slot.phase);
    const Tile tile = s.tiles[slot.stage];
    arrive(&s.taken[slot.stage]);
    arrive(&s.fed);
    if (tile.form == Form::none) return;
    if (tile.together() != together) {
      wait_barrier_of_cluster(&s.changed, changed.phase);
      changed.advance();
      together = !together;
    }
    if (together) {
      feed_tile<kTogetherBytes>(s, s.both, both, tile, map_a, map_b);
    } else {
      feed_tile<kTurnBytes>(s, s.turns, turns, tile, map_a, map_b);
    }
  }
}

// Threads that have nothing else to do: the gradients of experts without rows, where they are to be
// overwritten.
__device__ void clear_gradients(float* c, const int32_t* offsets, const Shape& shape, int thread,
                                int threads) {
  const int64_t count = int64_t{shape.out_rows} * shape.columns / 4;
  for (int e = 0; e < shape.experts; ++e) {
    if (__ldg(offsets + e) < __ldg(offsets + e + 1)) continue;
    float4* to = reinterpret_cast<float4*>(c) + e * count;
    for (int64_t i = thread; i < count; i += threads) to[i] = {0, 0, 0, 0};
  }
}

// A warpgroup's sums on their way out. Each warp sends its own rows, eight and 32 columns at a
// time, from two boxes in turn: no warp waits for another, and the copy engine has time for loads
// in between.
struct WayOut {
  uint8_t* boxes;  // of this warp
  int warpgroup;
  const CUtensorMap* map;
  bool accumulate;

  __device__ WayOut(Room& s, int of, const CUtensorMap* to, bool adds)
      : boxes(s.leaving[of] + threadIdx.x % kWarpgroup / 32 * (2 * kBytes)),
        warpgroup(of),
        map(to),
        accumulate(adds) {}

  // 64 rows from these on, as a product leaves them.
  template <int kSums>
  __device__ void send(const float (&d)[kSums], int row, int column, int matrix) const {
    const int lane = threadIdx.x % 32, top = row + threadIdx.x % kWarpgroup / 32 * 16;
#pragma unroll
    for (int part = 0; part < 2 * kSums / kSumColumns; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint8_t* box = boxes + half * kBytes;
        if (lane == 0) wait_stores<1>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // two columns each
          const int at = 16 * part + 4 * i + 2 * half;
          *reinterpret_cast<float2*>(unit_of(box, lane / 4, 2 * i + lane % 4 / 2) +
                                     lane % 2 * 8) = {d[at], d[at + 1]};
        }
        publish_stores();
        __syncwarp();
        if (lane == 0) {
          const int x = column + kSumColumns * part, y = top + 8 * half;
          if (accumulate) {
            add_tile(map, box, x, y, matrix);
          } else {
            store_tile(map, box, x, y, matrix);
          }
          commit_stores();
        }
      }
    }
  }

  __device__ void finish() const {
    if (threadIdx.x % 32 == 0) wait_stores<0>();
  }

  static constexpr int kRows = 8, kBytes = kRows * kSumColumns * 4;  // of a box
  static_assert(8 * kBytes == kBox);
};

// By a warpgroup that has read a stage: both blocks' feeding threads write there.
__device__ void release_in_pair(uint64_t* empty) {
  const int thread = threadIdx.x % kWarpgroup;
  if (thread < kPair) arrive_in_cluster(empty, thread);
}

// By a warpgroup whose tile is of another kind than the one before: waits until both blocks'
// warpgroups have done with the ring of the other kind. All of it has passed the last change, or
// one that has no turn at a tile could change again before its other warps have looked.
__device__ void change(Room& s, Ring<1>& at, int warpgroup) {
  sync_threads(1 + warpgroup, kWarpgroup);
  const int thread = threadIdx.x % kWarpgroup;
  if (thread < kPair) arrive_in_cluster_after_stores(&s.changed, thread);
  wait_barrier_of_cluster(&s.changed, at.phase);
  at.advance();
}

// A warpgroup's part of a tile: so many times 64 rows, from that box of the left operand's on, and
// twice as many columns as a thread has sums of each. `begin` is called when the sums are zeros,
// `end` when nothing more is asked of the tensor cores.
template <int kChains, int kLeft, int kSums, int kStages, class Begin, class End>
__device__ void multiply_tile(Room& s, Barriers<kStages>& ring, const Tile& tile, int first_box,
                              const WayOut& out, Begin begin, End end) {
  constexpr int kBytes = (kLeft + 2 * kSums / 64) * kBox;
  float d[kChains][kSums] = {};
#pragma unroll
  for (int i = 0; i < kChains; ++i) pin(d[i]);
  begin();
  Ring<kStages> at{tile.stage, tile.phase};
  const auto left_of = [&](int stage) { return s.stages + stage * kBytes + first_box * kBox; };
  const auto multiply = [&](int step) {
    const uint64_t left = tile_across(left_of(at.stage), kBox) + step * kStep<true>;
    const uint8_t* b = s.stages + at.stage * kBytes + kLeft * kBox;
    const uint64_t right = tile_across(b, kBox) + step * kStep<true>;
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      multiply_16<true, true>(d[i], left + i * (kBox / 16), right, 1);
    }
  };
  int before = -1, part = -1;  // stages that are not given back yet: of all rows, of some
  for (int k = 0; k < tile.rows / kDepth; ++k, at.advance()) {
    wait_barrier(&ring.full[at.stage], at.phase);
    begin_products();
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) multiply(step);
    commit_products();
    if (before >= 0) {
      wait_products<1>();
      release_in_pair(&ring.empty[before]);
    }
    before = at.stage;
  }
  if (const int rest = tile.rows % kDepth; rest > 0) {
    part = at.stage;
    wait_barrier(&ring.full[part], at.phase);
    if (rest % 16 > 0) clear_rows(left_of(part), kChains, rest, out.warpgroup);
    for (int step = 0; step < tiles_of(rest, 16); ++step) {
      begin_products();
      multiply(step);
      commit_products();
    }
  }
  end();
  wait_products<0>();
  if (before >= 0) release_in_pair(&ring.empty[before]);
  if (part >= 0) release_in_pair(&ring.empty[part]);
#pragma unroll
  for (int i = 0; i < kChains; ++i) {
    out.send(d[i], tile.row + 64 * (first_box + i), tile.column, tile.expert);
  }
}

// A warpgroup: its share of this block's tiles.
__device__ void multiply_tiles(Room& s, const CUtensorMap* map, bool accumulate) {
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  const WayOut out(s, warpgroup, map, accumulate);
  uint32_t turns = 0;  // of both, so far
  Ring<1> changed;
  bool together = false;
  for (Ring<kSlots> slot;; slot.advance()) {
    wait_barrier(&s.posted[slot.stage], slot.phase);
    const Tile tile = s.tiles[slot.stage];
    arrive(&s.taken[slot.stage]);
    if (tile.form == Form::none) break;
    if (tile.together() != together) {
      change(s, changed, warpgroup);
      together = !together;
    }
    if (together) {
      multiply_tile<1, 2, kTileColumns / 2>(
          s, s.both, tile, warpgroup, out, [] {}, [] {});
      continue;
    }
    const uint32_t turn = turns++;
    if (static_cast<int>(turn % 2) != warpgroup) continue;
    // The ring is read in order: a barrier's phase says nothing to one who is two rounds behind.
    const auto wait_for_turn = [&] {
      if (turn > 0) wait_barrier(&s.turn[warpgroup], ((turn - 1) / 2) & 1);
    };
    // Each warp hands on for itself: one that still waits for this turn must not miss two.
    const auto pass_turn = [&] {
      if (threadIdx.x % 32 == 0) arrive(&s.turn[1 - warpgroup]);
    };
    if (tile.form == Form::wide) {
      multiply_tile<2, 2, kLong / 2>(s, s.turns, tile, 0, out, wait_for_turn, pass_turn);
    } else {
      multiply_tile<3, 3, kShort / 2>(s, s.turns, tile, 0, out, wait_for_turn, pass_turn);
    }
  }
  out.finish();
}

template <int kStages>
__device__ void init_ring(Barriers<kStages>& ring, int readers) {
  for (int i = 0; i < kStages; ++i) {
    init_barrier(&ring.full[i], 1);
    init_barrier(&ring.empty[i], readers);
  }
}

__global__ void __launch_bounds__(kRingThreads, 1)
    weight_gradient_kernel(const __grid_constant__ CUtensorMap map_a,
                           const __grid_constant__ CUtensorMap map_b,
                           const __grid_constant__ CUtensorMap map_c, const int32_t* offsets,
                           const __grid_constant__ Shape shape, float* c, uint32_t* counter) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  auto* const raw = dynamic_shared<uint8_t>();
  Room& s = *reinterpret_cast<Room*>(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) {
      init_barrier(&s.posted[i], 1);
      init_barrier(&s.taken[i], 2 * kWarpgroup + 1);
    }
    for (int i = 0; i < 2; ++i) init_barrier(&s.turn[i], kWarpgroup / 32);
    init_ring(s.turns, kPair);
    init_ring(s.both, 2 * kPair);
    init_barrier(&s.changed, 2 * kPair);
    for (uint64_t* one : {&s.fed, &s.told, &s.heard}) init_barrier(one, 1);
    publish_barriers();
  }
  wait_for_kernel_ahead();
  const int count = plan(s, offsets, shape);
  __syncthreads();
  arrive_at_cluster();  // the other's barriers are ready
  wait_for_cluster();
  if (threadIdx.x < kWarpgroup) {
    give_registers<40>();
    if (threadIdx.x == 0) feed_tiles(s, &map_a, &map_b);
    if (threadIdx.x == 32) deal_tiles(s, count, offsets, shape, counter);
    if (threadIdx.x >= 64 && !shape.accumulate) {
      clear_gradients(c, offsets, shape, blockIdx.x * 64 + threadIdx.x - 64, gridDim.x * 64);
    }
  } else {
    take_registers<232>();
    multiply_tiles(s, &map_c, shape.accumulate);
  }
  __syncwarp();
  arrive_at_cluster();  // the other may still write here
  wait_for_cluster();
#endif
}

}  // namespace
}  // namespace weight_gradient

bool weight_gradient_in_turns(Stream& stream, const GroupedGemm& g, int processors) {
  using namespace weight_gradient;
  const Matrices a{g.a, g.out, g.rows, g.a_stride, 1, 64};
  const Matrices b{g.b, g.in, g.rows, g.b_stride, 1, 64};
  const Matrices c{g.c, g.in, g.out, g.in, g.experts, WayOut::kRows, true};
  if (!a.aligned() || !b.aligned() || !c.aligned()) return false;
  if (g.experts > kMostExperts || g.rows < kFewRows * g.experts || processors < kPair) return false;
  const weight_gradient::Shape shape{g.experts, static_cast<int>(g.out), static_cast<int>(g.in),
                                     g.accumulate};
  stream.allow_shared(weight_gradient_kernel, kRoomBytes);
  stream.launch_early(weight_gradient_kernel,
                      {.blocks = processors / kPair * kPair,
                       .threads = kRingThreads,
                       .shared_bytes = kRoomBytes,
                       .cluster = kPair},
                      a.describe(), b.describe(), c.describe(), g.offsets, shape,
                      static_cast<float*>(g.c), stream.counter());
  return true;
}

}  // namespace tephra::gpu

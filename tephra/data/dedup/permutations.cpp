// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/permutations.h"

#include <bit>
#include <random>

namespace tephra {
namespace {

// An integer in [low, high) as NumPy's legacy generator draws it: masked to the bits of the range,
// drawn again when above it. Wide ranges take two outputs, the first one high.
class Draws {
 public:
  explicit Draws(uint32_t seed) : twister_(seed) {}

  uint64_t operator()(uint64_t low, uint64_t high) {
    const uint64_t range = high - 1 - low;
    const uint64_t mask = std::bit_ceil(range + 1) - 1;
    for (;;) {
      uint64_t value = twister_();
      if (range > UINT32_MAX) value = value << 32 | twister_();
      value &= mask;
      if (value <= range) return low + value;
    }
  }

 private:
  std::mt19937 twister_;
};

constexpr uint64_t kMersenne31 = (uint64_t{1} << 31) - 1;
constexpr uint64_t kSeedLimit = 1'000'000;

Affine in_turn(size_t count, uint32_t seed, uint64_t high) {
  Draws draw(seed);
  Affine family;
  for (size_t i = 0; i < count; ++i) {
    family.a.push_back(draw(1, high));
    family.b.push_back(draw(0, high));
  }
  return family;
}

}  // namespace

Affine datasketch_family(size_t count, uint32_t seed) { return in_turn(count, seed, kMersenne61); }

Affine datatrove_family(size_t count, uint32_t seed) {
  Draws draw(seed);
  Affine family;
  for (size_t i = 0; i < count; ++i) family.a.push_back(draw(1, kMersenne61));
  for (size_t i = 0; i < count; ++i) family.b.push_back(draw(0, kMersenne61));
  return family;
}

Affine nemo_family(size_t count, uint32_t seed) { return in_turn(count, seed, kMersenne31); }

std::vector<uint32_t> nemo_seeds(size_t count, uint32_t seed) {
  Draws draw(seed);
  std::vector<uint32_t> seeds;
  for (size_t i = 0; i < count; ++i) seeds.push_back(static_cast<uint32_t>(draw(0, kSeedLimit)));
  return seeds;
}

Affine native_family(size_t count, uint32_t seed) {
  Draws draw(seed);
  Affine family;
  for (size_t i = 0; i < count; ++i) {
    family.a.push_back(draw(0, uint64_t{1} << 32) | 1);
    family.b.push_back(draw(0, uint64_t{1} << 32));
  }
  return family;
}

}  // namespace tephra

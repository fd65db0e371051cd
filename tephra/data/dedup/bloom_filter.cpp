// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/bloom_filter.h"

#include <algorithm>
#include <cmath>

namespace tephra {
namespace {

// The bit of probe i, each from a hash of its own: probes in equal steps would make small filters
// claim more than their rate.
uint64_t probe_bit(uint64_t key, uint32_t i, uint64_t bits) {
  uint64_t hash = key + (i + uint64_t{1}) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
  hash ^= hash >> 31;
  return static_cast<uint64_t>(static_cast<unsigned __int128>(hash) * bits >> 64);
}

}  // namespace

BloomShape BloomShape::of(uint64_t keys, double rate) {
  const double each = -std::log2(rate);
  BloomShape shape;
  shape.probes = static_cast<uint32_t>(std::max(1.0, std::round(each)));
  const double bits = std::ceil(static_cast<double>(keys) * each / std::log(2.0));
  shape.bits = (static_cast<uint64_t>(bits) / 64 + 1) * 64;
  return shape;
}

bool BloomFilter::holds(uint64_t key) const {
  for (uint32_t i = 0; i < shape_.probes; ++i) {
    const uint64_t bit = probe_bit(key, i, shape_.bits);
    if ((words_[bit / 64] >> (bit % 64) & 1) == 0) return false;
  }
  return true;
}

void BloomFilter::add(BloomShape shape, std::span<uint64_t> words, uint64_t key) {
  for (uint32_t i = 0; i < shape.probes; ++i) {
    const uint64_t bit = probe_bit(key, i, shape.bits);
    words[bit / 64] |= uint64_t{1} << (bit % 64);
  }
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// A set of 64-bit keys in a few bits a key: never forgets one, sometimes claims one it never saw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tephra {

struct BloomShape {
  uint64_t bits = 64;  // a multiple of 64
  uint32_t probes = 1;

  // The smallest that claims at most `rate` of strange keys once it holds `keys`.
  static BloomShape of(uint64_t keys, double rate);
};

// Over words that somebody else holds.
class BloomFilter {
 public:
  BloomFilter(BloomShape shape, std::span<const uint64_t> words) : shape_(shape), words_(words) {}

  bool holds(uint64_t key) const;
  static void add(BloomShape shape, std::span<uint64_t> words, uint64_t key);

 private:
  BloomShape shape_;
  std::span<const uint64_t> words_;
};

}  // namespace tephra

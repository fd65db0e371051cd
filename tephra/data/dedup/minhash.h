// SPDX-License-Identifier: Apache-2.0
// Minima of many permutations over the hashes of a document's shingles: the inner loop of MinHash.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tephra/data/dedup/permutations.h"

namespace tephra {

// v_i(h) = the low 32 bits of ((a_i h + b_i) mod 2^64) mod (2^61 - 1), as datasketch and NeMo have
// it. The minimum is found with 32-bit arithmetic alone and only what could be below it is computed
// in full (docs/decisions/0029-minhash-by-low-words.md).
class Mersenne32 {
 public:
  explicit Mersenne32(const Affine& family);

  // minima[i] becomes the smallest v_i over the hashes; 2^32 - 1 when there are none. The span may
  // be changed: it is padded to whole vectors.
  void minima(std::vector<uint32_t>& hashes, std::span<uint32_t> minima) const;
  size_t size() const { return a_.size(); }

  uint32_t value(size_t i, uint32_t hash) const;  // v_i(hash), the plain version

 private:
  std::vector<uint64_t> a_, b_;
  std::vector<uint32_t> low_a_, low_b_;  // of the vectors
};

// v_i(h) = ((a_i h + b_i) mod 2^64) mod (2^61 - 1), all of it, as datatrove has it.
class Mersenne64 {
 public:
  explicit Mersenne64(Affine family);
  // As of Mersenne32; 2^61 - 1 when there are no hashes.
  void minima(std::vector<uint64_t>& hashes, std::span<uint64_t> minima) const;
  uint64_t value(size_t i, uint64_t hash) const;
  size_t size() const { return family_.a.size(); }

 private:
  Affine family_;
  std::vector<uint32_t> low_a_, high_a_, high_b_;  // of the vectors
};

// v_i(h) = (h xor b_i) a_i mod 2^32: ours, for when nobody else's signatures are to be met.
class Native32 {
 public:
  explicit Native32(const Affine& family);
  void minima(std::span<const uint32_t> hashes, std::span<uint32_t> minima) const;
  uint32_t value(size_t i, uint32_t hash) const { return (hash ^ b_[i]) * a_[i]; }
  size_t size() const { return a_.size(); }

 private:
  std::vector<uint32_t> a_, b_;
};

// v_i(window) = murmur3(window, seed_i) over windows of `width` code points at every code point; a
// shorter text is one window. As Zyda-2 was released. Of no text, zeros.
void seeded_murmur_minima(std::string_view text, size_t width, std::span<const uint32_t> seeds,
                          std::span<uint32_t> minima);

// murmur3 of the same windows with one seed, one after another.
void murmur_window_hashes(std::string_view text, size_t width, uint32_t seed,
                          std::vector<uint32_t>& hashes);

}  // namespace tephra

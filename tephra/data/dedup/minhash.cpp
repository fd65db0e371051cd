// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/minhash.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/data/dedup/minhash_kernels.h"
#include "tephra/data/dedup/murmur3.h"

namespace tephra {
namespace {

using namespace minhash;  // NOLINT(google-build-using-namespace): the kernels

std::vector<uint32_t> low_words(const std::vector<uint64_t>& values) {
  std::vector<uint32_t> words;
  for (const uint64_t value : values) words.push_back(static_cast<uint32_t>(value));
  return words;
}

constexpr size_t kMaxPermutations = 1024;

}  // namespace

Mersenne32::Mersenne32(const Affine& family)
    : a_(family.a), b_(family.b), low_a_(low_words(a_)), low_b_(low_words(b_)) {
  TEPHRA_ASSERT(a_.size() <= kMaxPermutations, "minima fit on the stack");
  for (uint32_t& b : low_b_) b += kSlack;
  low_a_.resize(padded(a_.size()), 0);
  low_b_.resize(padded(a_.size()), 1);  // above the bound 0 of padding
}

uint32_t Mersenne32::value(size_t i, uint32_t hash) const {
  return static_cast<uint32_t>((a_[i] * hash + b_[i]) % kMersenne61);
}

void Mersenne32::minima(std::vector<uint32_t>& hashes, std::span<uint32_t> minima) const {
  if (hashes.empty()) {
    std::fill(minima.begin(), minima.end(), UINT32_MAX);
    return;
  }
  const size_t count = hashes.size();
  hashes.resize(padded(count), hashes.back());
  std::array<uint32_t, kMaxPermutations + kLanes> least, bounds{};
  for (size_t i = 0; i < a_.size(); ++i) {
    least[i] = mersenne_low(a_[i] * hashes[0] + b_[i]);
    bounds[i] = bound_of(least[i]);
  }
  run(Mersenne32Kernel{hashes.data(), count, a_.data(), b_.data(), low_a_.data(), low_b_.data(),
                       low_a_.size(), least.data(), bounds.data()});
  std::copy_n(least.begin(), a_.size(), minima.begin());
  hashes.resize(count);
}

uint64_t Mersenne64::value(size_t i, uint64_t hash) const {
  return (family_.a[i] * hash + family_.b[i]) % kMersenne61;
}

void Mersenne64::minima(std::span<const uint64_t> hashes, std::span<uint64_t> minima) const {
  TEPHRA_ASSERT(size() % 8 == 0 && minima.size() == size(), "whole vectors of permutations");
  run(Mersenne64Kernel{hashes.data(), hashes.size(), family_.a.data(), family_.b.data(), size(),
                       minima.data()});
}

Native32::Native32(const Affine& family) : a_(low_words(family.a)), b_(low_words(family.b)) {
  TEPHRA_ASSERT(a_.size() % kLanes == 0, "whole vectors of permutations");
}

void Native32::minima(std::span<const uint32_t> hashes, std::span<uint32_t> minima) const {
  run(Native32Kernel{hashes.data(), hashes.size(), a_.data(), b_.data(), a_.size(), minima.data()});
}

namespace {

// Where each code point begins, and the end.
void code_point_starts(std::string_view text, std::vector<size_t>& starts) {
  starts.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) starts.push_back(i);
  }
  starts.push_back(text.size());
}

}  // namespace

void seeded_murmur_minima(std::string_view text, size_t width, std::span<const uint32_t> seeds,
                          std::span<uint32_t> minima) {
  TEPHRA_ASSERT(seeds.size() % kLanes == 0, "whole vectors of seeds");
  if (text.empty()) {
    std::fill(minima.begin(), minima.end(), 0);
    return;
  }
  std::fill(minima.begin(), minima.end(), UINT32_MAX);
  std::vector<size_t> starts;
  code_point_starts(text, starts);
  const size_t points = starts.size() - 1;
  const size_t windows = points < width ? 1 : points - width + 1;
  std::vector<uint32_t> mixed;
  for (size_t w = 0; w < windows; ++w) {
    const size_t end = starts[std::min(points, w + width)];
    const std::string_view bytes = text.substr(starts[w], end - starts[w]);
    mixed.clear();
    size_t at = 0;
    for (; at + 4 <= bytes.size(); at += 4) {
      uint32_t block = 0;
      std::memcpy(&block, bytes.data() + at, 4);
      mixed.push_back(murmur::mix_block(block));
    }
    uint32_t rest = 0;
    if (at < bytes.size()) std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
    const uint32_t last = murmur::mix_block(rest) ^ static_cast<uint32_t>(bytes.size());
    run(MurmurKernel{mixed.data(), mixed.size(), last, seeds.data(), seeds.size(), minima.data()});
  }
}

}  // namespace tephra

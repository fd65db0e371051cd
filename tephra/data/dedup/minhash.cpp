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
  for (uint32_t& b : low_b_) b += Mersenne32Kernel::kSlack;
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
  static_assert(kBlock == kLanes);
  hashes.resize(padded(count), hashes.back());
  std::array<uint32_t, kMaxPermutations + kLanes> least, bounds{};
  for (size_t i = 0; i < a_.size(); ++i) {
    least[i] = mersenne_low(a_[i] * hashes[0] + b_[i]);
    bounds[i] = Mersenne32Kernel::bound_of(least[i]);
  }
  run(Mersenne32Kernel{hashes.data(), count, a_.data(), b_.data(), low_a_.data(), low_b_.data(),
                       low_a_.size(), least.data(), bounds.data()});
  std::copy_n(least.begin(), a_.size(), minima.begin());
  hashes.resize(count);
}

uint64_t Mersenne64::value(size_t i, uint64_t hash) const {
  return (family_.a[i] * hash + family_.b[i]) % kMersenne61;
}

Mersenne64::Mersenne64(Affine family) : family_(std::move(family)) {
  TEPHRA_ASSERT(size() <= kMaxPermutations, "bounds fit on the stack");
  for (const uint64_t a : family_.a) {
    low_a_.push_back(static_cast<uint32_t>(a << 3));
    high_a_.push_back(static_cast<uint32_t>(a >> 29));
  }
  for (const uint64_t b : family_.b) {
    const auto high = static_cast<uint32_t>((b + kMostQuotient) >> 29);
    high_b_.push_back(high + Mersenne64Kernel::kSlack - 1);
  }
  low_a_.resize(padded(size()), 0);
  high_a_.resize(padded(size()), 0);
  high_b_.resize(padded(size()), 1);  // above the bound 0 of padding
}

void Mersenne64::minima(std::vector<uint64_t>& hashes, std::span<uint64_t> minima) const {
  if (hashes.empty()) {
    std::fill(minima.begin(), minima.end(), kMersenne61);
    return;
  }
  const size_t count = hashes.size();
  hashes.resize(padded(count), hashes.back());
  std::array<uint32_t, kMaxPermutations + kLanes> bounds{};
  for (size_t i = 0; i < size(); ++i) {
    minima[i] = value(i, hashes[0]);
    bounds[i] = Mersenne64Kernel::bound_of(minima[i]);
  }
  run(Mersenne64Kernel{hashes.data(), count, family_.a.data(), family_.b.data(), low_a_.data(),
                       high_a_.data(), high_b_.data(), low_a_.size(), minima.data(),
                       bounds.data()});
  hashes.resize(count);
}

Native32::Native32(const Affine& family) : a_(low_words(family.a)), b_(low_words(family.b)) {
  TEPHRA_ASSERT(a_.size() % kLanes == 0, "whole vectors of permutations");
}

void Native32::minima(std::span<const uint32_t> hashes, std::span<uint32_t> minima) const {
  run(Native32Kernel{hashes.data(), hashes.size(), a_.data(), b_.data(), a_.size(), minima.data()});
}

namespace {

constexpr size_t kWindowsAtOnce = 2048;  // what they need stays in cache

// Windows of a text, at every code point, and what the kernels need of them.
struct Windows {
  std::string_view text;
  size_t width;
  std::vector<uint32_t> starts;  // of code points, and the end
  std::vector<uint32_t> mixed;   // of the four bytes from each byte on
  size_t points, count;

  Windows(std::string_view given, size_t code_points) : text(given), width(code_points) {
    for (size_t i = 0; i < text.size(); ++i) {
      if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
        starts.push_back(static_cast<uint32_t>(i));
      }
    }
    points = starts.size();
    count = points < width ? 1 : points - width + 1;
    starts.push_back(static_cast<uint32_t>(text.size()));
    mixed.resize(text.size() + kLanes);
    for (size_t i = 0; i + 4 <= text.size(); ++i) {
      uint32_t block = 0;
      std::memcpy(&block, text.data() + i, 4);
      mixed[i] = murmur::mix_block(block);
    }
  }

  size_t size(size_t w) const { return starts[std::min(points, w + width)] - starts[w]; }

  // After the neighbours of `begin` that begin one byte after another and have as many bytes: of
  // ASCII, some thousand.
  size_t like(size_t begin) const {
    size_t end = begin + 1;
    const size_t most = std::min(count, begin + kWindowsAtOnce), bytes = size(begin);
    while (end < most && starts[end] == starts[end - 1] + 1 && size(end) == bytes) ++end;
    return end;
  }

  // Of each such window what comes after whole blocks, mixed, and its size.
  void rests(size_t begin, size_t end, std::vector<uint32_t>& last) const {
    const size_t bytes = size(begin), whole = bytes / 4 * 4;
    last.resize(end - begin + kLanes);
    for (size_t w = begin; w < end; ++w) {
      uint32_t rest = 0;
      for (size_t i = whole; i < bytes; ++i) {
        const auto byte = static_cast<unsigned char>(text[starts[w] + i]);
        rest |= uint32_t{byte} << (8 * (i - whole));
      }
      last[w - begin] = murmur::mix_block(rest) ^ static_cast<uint32_t>(bytes);
    }
  }
};

}  // namespace

void seeded_murmur_minima(std::string_view text, size_t width, std::span<const uint32_t> seeds,
                          std::span<uint32_t> minima) {
  TEPHRA_ASSERT(seeds.size() % kLanes == 0, "whole vectors of seeds");
  std::fill(minima.begin(), minima.end(), text.empty() ? 0 : UINT32_MAX);
  if (text.empty()) return;
  const Windows all(text, width);
  std::vector<uint32_t> last;
  for (size_t begin = 0; begin < all.count;) {
    const size_t end = all.like(begin);
    all.rests(begin, end, last);
    run(MurmurKernel{all.mixed.data(), all.starts.data() + begin, last.data(), end - begin,
                     all.size(begin) / 4, seeds.data(), seeds.size(), minima.data()});
    begin = end;
  }
}

void murmur_window_hashes(std::string_view text, size_t width, uint32_t seed,
                          std::vector<uint32_t>& hashes) {
  hashes.clear();
  if (text.empty()) return;
  const Windows all(text, width);
  hashes.resize(all.count + kLanes);
  std::vector<uint32_t> last;
  for (size_t begin = 0; begin < all.count;) {
    const size_t end = all.like(begin);
    all.rests(begin, end, last);
    run(WindowHashKernel{all.mixed.data() + all.starts[begin], last.data(), end - begin,
                         all.size(begin) / 4, seed, hashes.data() + begin});
    begin = end;
  }
  hashes.resize(all.count);
}

}  // namespace tephra

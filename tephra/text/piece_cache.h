// SPDX-License-Identifier: Apache-2.0
// A fixed cache from short pieces of text to their ids: most of any text is the same few thousand
// words. One cache line an entry; a new piece takes the place of the older of two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>

namespace tephra {

class PieceCache {
 public:
  static constexpr size_t kMaxBytes = 32;
  static constexpr size_t kMaxIds = 7;

  // calloc, so that an encoder of one short text touches a few pages only.
  PieceCache() : memory_(std::calloc(kEntries + 1, sizeof(Entry)), &std::free) {
    if (memory_ == nullptr) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    entries_ = reinterpret_cast<Entry*>((address + 63) & ~uintptr_t{63});
  }

  // A short piece as words and a hash; equal keys are equal pieces.
  struct Key {
    uint64_t words[4];
    uint32_t length;
    uint32_t slot;
  };
  static Key key_of(std::string_view piece);  // of 1 to kMaxBytes bytes

  // Its ids; `found` false when it is not there.
  std::span<const int32_t> find(const Key& key, bool& found) const {
    for (const uint32_t slot : {key.slot, key.slot ^ 1}) {
      const Entry& e = entries_[slot];
      if (e.length == key.length && same(e, key)) {
        found = true;
        return {e.ids, e.count};
      }
    }
    found = false;
    return {};
  }

  void insert(const Key& key, std::span<const int32_t> ids);  // of at most kMaxIds

 private:
  struct alignas(64) Entry {
    uint64_t words[4];
    int32_t ids[kMaxIds];
    uint16_t length;  // 0: empty
    uint16_t count;
  };
  static_assert(sizeof(Entry) == 64);
  static constexpr size_t kEntries = size_t{1} << 16;

  static bool same(const Entry& e, const Key& key) {
    return ((e.words[0] ^ key.words[0]) | (e.words[1] ^ key.words[1]) |
            (e.words[2] ^ key.words[2]) | (e.words[3] ^ key.words[3])) == 0;
  }

  std::unique_ptr<void, decltype(&std::free)> memory_;
  Entry* entries_;
};

// Loads that overlap instead of reading beyond the piece: with the length they are unique.
inline PieceCache::Key PieceCache::key_of(std::string_view piece) {
  const auto load8 = [&](size_t at) {
    uint64_t word;
    std::memcpy(&word, piece.data() + at, 8);
    return word;
  };
  const auto load4 = [&](size_t at) -> uint64_t {
    uint32_t word;
    std::memcpy(&word, piece.data() + at, 4);
    return word;
  };
  const auto byte = [&](size_t at) -> uint64_t { return static_cast<unsigned char>(piece[at]); };
  const size_t n = piece.size();
  Key key{{0, 0, 0, 0}, static_cast<uint32_t>(n), 0};
  if (n >= 8) {
    key.words[0] = load8(0);
    key.words[3] = load8(n - 8);
    if (n > 16) key.words[1] = load8(8);
    if (n > 24) key.words[2] = load8(16);
  } else if (n >= 4) {
    key.words[0] = load4(0) | load4(n - 4) << 32;
  } else {
    key.words[0] = byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16;
  }
  uint64_t hash = (key.words[0] ^ n) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 29 ^ key.words[3]) * 0xbf58476d1ce4e5b9u;
  if (n > 16) hash = ((hash ^ hash >> 31 ^ key.words[1]) * 0x94d049bb133111ebu) ^ key.words[2];
  if (n > 24) hash *= 0xd6e8feb86659fd93u;
  key.slot = static_cast<uint32_t>((hash ^ hash >> 32) >> 7 & (kEntries - 1));
  return key;
}

inline void PieceCache::insert(const Key& key, std::span<const int32_t> ids) {
  Entry& first = entries_[key.slot];
  if (first.length != 0) entries_[key.slot ^ 1] = first;
  std::memcpy(first.words, key.words, sizeof first.words);
  std::copy(ids.begin(), ids.end(), first.ids);
  first.length = static_cast<uint16_t>(key.length);
  first.count = static_cast<uint16_t>(ids.size());
}

}  // namespace tephra

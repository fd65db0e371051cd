// SPDX-License-Identifier: Apache-2.0
// A table from 64-bit hashes to small numbers that is emptied without touching it: for counts
// within one document after another. Keys are hashes already; no other mixing is done.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tephra {

template <class Value>
class HashTable {
 public:
  // Empties it and makes room for `count` keys.
  void reset(size_t count) {
    const size_t size = std::bit_ceil(2 * count + 16);
    if (size > slots_.size() || ++round_ == 0) {
      slots_.assign(std::max(size, slots_.size()), Slot{});
      round_ = 1;
    }
    mask_ = size - 1;  // a small document stays in a small, cached part
  }

  // The value of the key, Value{} when it is new.
  Value& operator[](uint64_t key) {
    for (size_t i = (key ^ key >> 32) & mask_;; i = (i + 1) & mask_) {
      Slot& slot = slots_[i];
      if (slot.round != round_) {
        slot = {key, round_, Value{}};
        return slot.value;
      }
      if (slot.key == key) return slot.value;
    }
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t round = 0;  // of the document it belongs to
    Value value{};
  };

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  uint32_t round_ = 0;
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Numbers for 64-bit hashes by open addressing, for loops that look up every word of a text.
#pragma once

#include <cstdint>
#include <vector>

namespace tephra {

class HashIds {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  uint32_t find(uint64_t hash) const {
    const Slot& slot = slots_[place(hash)];
    return slot.id;
  }

  // The place for the number of this hash: kNone stands there when it is new, and a number has to
  // be put there before the next call.
  uint32_t& operator[](uint64_t hash) {
    if (2 * used_ >= slots_.size()) grow();
    Slot& slot = slots_[place(hash)];
    if (slot.id == kNone) {
      slot.hash = hash;
      ++used_;
    }
    return slot.id;
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t id = kNone;
  };

  size_t place(uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t at = hash & mask;
    while (slots_[at].id != kNone && slots_[at].hash != hash) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id != kNone) slots_[place(slot.hash)] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(1024);
  size_t used_ = 0;
};

}  // namespace tephra

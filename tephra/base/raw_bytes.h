// SPDX-License-Identifier: Apache-2.0
// Memory that is about to be overwritten: not set to zero first, and kept for the next use.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace tephra {

class RawBytes {
 public:
  // What was in it is gone.
  std::span<char> resize(size_t size) {
    if (!bytes_ || size > capacity_) {  // also for none: decoders want an address
      bytes_.reset();                   // before the new one, so that both are never there
      capacity_ = 0;
      bytes_ = std::make_unique_for_overwrite<char[]>(size);
      capacity_ = size;
    }
    size_ = size;
    return {bytes_.get(), size};
  }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace tephra

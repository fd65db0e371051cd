// SPDX-License-Identifier: Apache-2.0
// A buffer that a kernel keeps from call to call, one a thread: grown when it must be, aligned, and
// counted as workspace like everything else a kernel holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "tephra/device/memory.h"

namespace tephra::cpu {

template <class T>
class Scratch {
 public:
  // Room for `size` elements, whose contents are undefined.
  T* get(int64_t size) {
    const int64_t bytes = std::max<int64_t>(1, size) * static_cast<int64_t>(sizeof(T));
    if (storage_ == nullptr || storage_->bytes() < bytes) {
      storage_.reset();
      storage_ = Storage::allocate(kCpu, bytes, Purpose::workspace);
    }
    return static_cast<T*>(storage_->data());
  }

 private:
  std::shared_ptr<Storage> storage_;
};

}  // namespace tephra::cpu

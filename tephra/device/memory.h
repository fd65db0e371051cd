// SPDX-License-Identifier: Apache-2.0
// Device memory. Every allocation states its purpose, so that a plan and a peak can be printed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "tephra/device/device.h"

namespace tephra {

enum class Purpose { weights, gradients, optimizer, activations, cache, workspace };
inline constexpr int kNumPurposes = 6;

std::string to_text(Purpose purpose);

// An aligned block, freed (into a cache of blocks) with its last owner. Contents are undefined.
class Storage {
 public:
  static std::shared_ptr<Storage> allocate(Device device, int64_t bytes, Purpose purpose);

  // Memory owned by someone else, e.g. a mapped file that `owner` keeps alive.
  static std::shared_ptr<Storage> wrap(void* data, int64_t bytes, std::shared_ptr<void> owner);

  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  Storage() = default;

  void* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t block_bytes_ = 0;  // what was taken from the system, 0 for wrapped memory
  Device device_;
  Purpose purpose_ = Purpose::workspace;
  std::shared_ptr<void> owner_;
};

struct MemoryUse {
  int64_t bytes = 0;
  int64_t peak_bytes = 0;
};

// Live and peak bytes, by purpose and (last entry) in all: of the host, or of all GPUs together.
std::array<MemoryUse, kNumPurposes + 1> memory_use(Device::Kind kind = Device::Kind::cpu);
void reset_memory_peaks();

// Fills new blocks with 0xff (NaN in every float type), so that a test sees what a kernel forgot to
// write. On by default in sanitizer builds.
void poison_new_memory(bool on);

// Freed blocks that are kept for reuse, in bytes: at most what was ever in use at once.
int64_t kept_memory();
// Gives them back to the system.
void trim_memory();

// Whether the system gives large blocks of this process large pages, as we ask it to.
bool has_large_pages();

}  // namespace tephra

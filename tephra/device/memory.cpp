// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/memory.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/device/memory_shortage.h"

namespace tephra {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kSmallestCached = 64 << 10;

#ifdef TEPHRA_SANITIZED
constexpr bool kCacheBlocks = false;  // a reused block would hide a use after free
#else
constexpr bool kCacheBlocks = true;
#endif

// Large blocks start on huge pages, but not all at the same offset: rows of several tensors that a
// kernel reads and writes side by side would crowd into the same sets of the cache and banks of the
// memory. An odd number of cache lines apart, each of the next 32 blocks has a place of its own.
constexpr int64_t kStagger = 17 * kAlignment;
constexpr int64_t kStaggers = kCacheBlocks ? 32 : 1;  // sanitizers watch the ends of blocks

// Sizes are rounded to eighths of a power of two, so that freed blocks fit again.
int64_t round_up_bytes(int64_t bytes) {
  int64_t step = kAlignment;
  if (bytes > kSmallestCached) {
    step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 8;
  }
  return (bytes + step - 1) / step * step;
}

// What is live and its peak. Every op allocates, from any thread: no lock.
struct Counter {
  std::atomic<int64_t> bytes{0}, peak{0};

  void add(int64_t amount) {
    const int64_t now = bytes.fetch_add(amount, std::memory_order_relaxed) + amount;
    int64_t before = peak.load(std::memory_order_relaxed);
    while (before < now && !peak.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
    }
  }
};
std::array<Counter, kNumPurposes + 1> uses[2];  // of hosts, of GPUs

std::array<Counter, kNumPurposes + 1>& uses_of(Device::Kind kind) {
  return uses[kind == Device::Kind::cpu ? 0 : 1];
}

void count(Device device, Purpose purpose, int64_t bytes) {
  auto& use = uses_of(device.kind);
  use[static_cast<size_t>(purpose)].add(bytes);
  use[kNumPurposes].add(bytes);
}

void* aligned_block(int64_t alignment, int64_t bytes) {
  void* block = nullptr;
  const int failed =
      posix_memalign(&block, static_cast<size_t>(alignment), static_cast<size_t>(bytes));
  return failed == 0 ? block : nullptr;
}

thread_local bool small_blocks_gone = false;  // of a thread that ends

// Freed small blocks of a thread, for its next ones. A decoded token takes and frees a thousand
// small tensors, and aligned blocks are what the system's allocator is slow at.
class SmallBlocks {
 public:
  ~SmallBlocks() {
    free_kept();
    small_blocks_gone = true;
  }

  // Of the calling thread; null when it ends and has given its own back already.
  static SmallBlocks* of_thread() {
    thread_local SmallBlocks blocks;
    return small_blocks_gone ? nullptr : &blocks;
  }

  void* take(int64_t bytes) {
    std::vector<void*>& list = free_[static_cast<size_t>(bytes / kAlignment)];
    if (list.empty()) return nullptr;
    void* block = list.back();
    list.pop_back();
    kept_ -= bytes;
    return block;
  }

  void give(void* block, int64_t bytes) {
    if (kept_ + bytes > kMost) free_kept();  // sizes of another time
    free_[static_cast<size_t>(bytes / kAlignment)].push_back(block);
    kept_ += bytes;
  }

 private:
  static constexpr int64_t kMost = 1 << 20;

  void free_kept() {
    for (std::vector<void*>& list : free_) {
      for (void* block : list) std::free(block);
      list.clear();
    }
    kept_ = 0;
  }

  std::array<std::vector<void*>, static_cast<size_t>(kSmallestCached / kAlignment)> free_;
  int64_t kept_ = 0;
};

// Freed large blocks are kept: returning them to the system would cost a page fault for every 4 KiB
// the next time. No more is kept than was ever in use at once, so that a process whose sizes change
// (a server's) at most doubles.
class BlockCache {
 public:
  void* take(int64_t bytes) {
    void* block = kept_when_freed(bytes) ? take_kept(bytes) : nullptr;
    if (block == nullptr) block = from_system(bytes);
    if (block == nullptr) {
      trim();
      block = from_system(bytes);
    }
    if (block != nullptr && kept_when_freed(bytes)) {
      const std::lock_guard lock(mutex_);
      in_use_ += bytes;
      most_in_use_ = std::max(most_in_use_, in_use_);
    }
    return block;
  }

  void give(void* block, int64_t bytes) {
    if (!kept_when_freed(bytes)) return to_system(block, bytes);
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    if (kept_ + bytes > most_in_use_) free_kept();  // all of it: sizes of another time
    free_[bytes].push_back(block);
    kept_ += bytes;
  }

  void trim() {
    const std::lock_guard lock(mutex_);
    free_kept();
  }

  int64_t kept() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

 private:
  // Small blocks are their thread's business, which needs no lock.
  static bool kept_when_freed(int64_t bytes) { return kCacheBlocks && bytes >= kSmallestCached; }

  void* take_kept(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto it = free_.find(bytes);
    if (it == free_.end() || it->second.empty()) return nullptr;
    void* block = it->second.back();
    it->second.pop_back();
    kept_ -= bytes;
    return block;
  }

  void free_kept() {
    for (auto& [bytes, blocks] : free_) {
      for (void* block : blocks) to_system(block, bytes);
    }
    free_.clear();
    kept_ = 0;
  }

  static bool large(int64_t bytes) { return bytes >= 2 * kHugePage; }

  void* from_system(int64_t bytes) {
    if (!large(bytes)) return aligned_block(kAlignment, bytes);
    const int64_t size = bytes + (kStaggers - 1) * kStagger;
    void* block = aligned_block(kHugePage, size);
    if (block == nullptr) return nullptr;
    madvise(block, static_cast<size_t>(size), MADV_HUGEPAGE);
    return static_cast<std::byte*>(block) + staggers_++ % kStaggers * kStagger;
  }

  static void to_system(void* block, int64_t bytes) {
    const auto address = reinterpret_cast<uintptr_t>(block);
    const auto offset = large(bytes) ? static_cast<int64_t>(address % kHugePage) : 0;
    std::free(static_cast<std::byte*>(block) - offset);
  }

  std::atomic<int64_t> staggers_{0};
  std::mutex mutex_;
  std::map<int64_t, std::vector<void*>> free_;
  int64_t in_use_ = 0, most_in_use_ = 0, kept_ = 0;
};

// Never destroyed: threads that end late still give their scratch back.
BlockCache& blocks() {
  static auto* const cache = new BlockCache;
  return *cache;
}

SmallBlocks* small_blocks(int64_t bytes) {
  return kCacheBlocks && bytes < kSmallestCached ? SmallBlocks::of_thread() : nullptr;
}

void* take_host_block(int64_t bytes) {
  SmallBlocks* const small = small_blocks(bytes);
  void* block = small ? small->take(bytes) : nullptr;
  return block ? block : blocks().take(bytes);
}

void give_host_block(void* block, int64_t bytes) {
  if (SmallBlocks* const small = small_blocks(bytes)) return small->give(block, bytes);
  blocks().give(block, bytes);
}

#ifdef TEPHRA_SANITIZED
std::atomic<bool> poison{true};
#else
std::atomic<bool> poison{false};
#endif

}  // namespace

std::string to_text(Purpose purpose) {
  constexpr const char* kNames[] = {"weights",     "gradients", "optimizer",
                                    "activations", "cache",     "workspace"};
  return kNames[static_cast<size_t>(purpose)];
}

namespace {

// Rounded up to what the GPU's allocator gives out.
constexpr int64_t kGpuAlignment = 512;

[[noreturn]] void fail_to_fit(Device device, int64_t bytes, Purpose purpose) {
  const auto use = memory_use(device.kind);
  if (device.kind == Device::Kind::cpu) {
    throw Error(Fault::device,
                format("out of memory: {} bytes for {} do not fit, {} bytes are in use", bytes,
                       purpose, use[kNumPurposes].bytes),
                "use a smaller batch, context or model, or a narrower dtype");
  }
  const MemoryShortage shortage{device, bytes, purpose, gpu::memory(device), use};
  throw Error(Fault::device, shortage.text(), shortage.hint());
}

void* take_block(Device device, int64_t bytes) {
  if (device.kind == Device::Kind::cpu) return take_host_block(bytes);
  void* block = gpu::allocate(device, bytes);
  if (block != nullptr) return block;
  gpu::trim(device);  // what is kept may be in pieces that are too small
  return gpu::allocate(device, bytes);
}

}  // namespace

std::shared_ptr<Storage> Storage::allocate(Device device, int64_t bytes, Purpose purpose) {
  TEPHRA_ASSERT(bytes >= 0, "a size cannot be negative");
  std::shared_ptr<Storage> storage(new Storage);
  storage->bytes_ = bytes;
  storage->device_ = device;
  storage->purpose_ = purpose;
  if (bytes == 0) return storage;
  const bool host = device.kind == Device::Kind::cpu;
  const int64_t size =
      host ? round_up_bytes(bytes) : (bytes + kGpuAlignment - 1) / kGpuAlignment * kGpuAlignment;
  storage->data_ = take_block(device, size);
  if (storage->data_ == nullptr) fail_to_fit(device, bytes, purpose);
  storage->block_bytes_ = size;
  count(device, purpose, size);
  if (poison && host) std::memset(storage->data_, 0xff, static_cast<size_t>(bytes));
  if (poison && !host) gpu::fill_bytes(device, storage->data_, 0xff, bytes);
  return storage;
}

std::shared_ptr<Storage> Storage::wrap(void* data, int64_t bytes, std::shared_ptr<void> owner) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->data_ = data;
  storage->bytes_ = bytes;
  storage->owner_ = std::move(owner);
  return storage;
}

Storage::~Storage() {
  if (block_bytes_ == 0) return;
  if (device_.kind == Device::Kind::cpu) {
    give_host_block(data_, block_bytes_);
  } else {
    gpu::release(device_, data_);
  }
  count(device_, purpose_, -block_bytes_);
}

std::array<MemoryUse, kNumPurposes + 1> memory_use(Device::Kind kind) {
  std::array<MemoryUse, kNumPurposes + 1> use;
  for (size_t i = 0; i < use.size(); ++i) {
    const Counter& counter = uses_of(kind)[i];
    use[i] = {counter.bytes.load(), counter.peak.load()};
  }
  return use;
}

void reset_memory_peaks() {
  for (auto& use : uses) {
    for (Counter& counter : use) counter.peak = counter.bytes.load();
  }
}

void poison_new_memory(bool on) { poison = on; }

void trim_memory() { blocks().trim(); }

int64_t kept_memory() { return blocks().kept(); }

bool has_large_pages() {
  // 1: this process gets none; other values leave those that are asked for.
  if (::prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1) return false;
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string setting;  // the one in brackets
  std::getline(file, setting);
  return file.good() && setting.find("[never]") == std::string::npos;
}

}  // namespace tephra

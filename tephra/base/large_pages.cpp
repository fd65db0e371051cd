// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/large_pages.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace tephra {
namespace {

// Linux's interface (include/uapi/linux: fs.h, mman.h), which the headers of older systems lack.
constexpr uint64_t kPresent = 1 << 3, kHuge = 1 << 6;
constexpr int kPopulateRead = 22;
constexpr long kCacheStat = 451;

struct Region {
  uint64_t start, end, categories;
};

struct ScanPages {
  uint64_t size, flags, start, end, walk_end, regions, num_regions, max_pages;
  uint64_t inverted, all_of, any_of, returned;
};

struct CacheRange {
  uint64_t offset, bytes;
};

struct CachedPages {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

int64_t small_page() { return ::sysconf(_SC_PAGESIZE); }

// What the system tells of this process's pages.
class PageMap {
 public:
  PageMap() : fd_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~PageMap() {
    if (fd_ >= 0) ::close(fd_);
  }
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  std::optional<PageSizes> sizes(uintptr_t begin, uintptr_t end) const {
    PageSizes sizes;
    std::array<Region, 256> regions;
    while (begin < end) {
      ScanPages scan{.size = sizeof(ScanPages),
                     .start = begin,
                     .end = end,
                     .regions = reinterpret_cast<uintptr_t>(regions.data()),
                     .num_regions = regions.size(),
                     .all_of = kPresent,
                     .returned = kPresent | kHuge};
      const int found = ::ioctl(fd_, _IOWR('f', 16, ScanPages), &scan);
      if (found < 0) return {};
      for (int i = 0; i < found; ++i) add(regions[static_cast<size_t>(i)], sizes);
      begin = scan.walk_end;
    }
    return sizes;
  }

 private:
  static void add(const Region& region, PageSizes& sizes) {
    const auto bytes = static_cast<int64_t>(region.end - region.start);
    sizes.mapped += bytes;
    if (region.categories & kHuge) sizes.large += bytes;
  }

  int fd_;
};

bool cached_wholly(int fd, int64_t offset, int64_t bytes) {
  const CacheRange range{static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes)};
  CachedPages pages{};
  if (::syscall(kCacheStat, fd, &range, &pages, 0) != 0) return false;
  return static_cast<int64_t>(pages.cached) * small_page() == bytes;
}

}  // namespace

std::optional<PageSizes> page_sizes(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(small_page());
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  return PageMap().sizes(begin / page * page, (begin + bytes.size() + page - 1) / page * page);
}

std::optional<bool> large_pages_come() {
  constexpr size_t kSize = 2 * kLargePage;  // holds one, wherever it begins
  void* data = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return {};
  ::madvise(data, kSize, MADV_HUGEPAGE);
  std::memset(data, 1, kSize);
  const auto sizes = page_sizes({static_cast<const std::byte*>(data), kSize});
  ::munmap(data, kSize);
  if (!sizes) return {};
  return sizes->large > 0;
}

std::vector<int64_t> cached_in_small_pages(int fd, std::span<const std::byte> mapping) {
  std::vector<int64_t> blocks;
  if (small_page() != 4096) return blocks;  // large pages are then of another size
  const PageMap map;
  const auto page = static_cast<size_t>(small_page());
  auto* begin = const_cast<std::byte*>(mapping.data());
  // Or a page that is met has the system read ahead: the next block would be found in the cache,
  // met as well, and so on through the file.
  ::madvise(begin, mapping.size(), MADV_RANDOM);
  for (int64_t at = 0; at + kLargePage <= std::ssize(mapping); at += kLargePage) {
    if (!cached_wholly(fd, at, kLargePage)) continue;
    // A first page that is asked for brings the large one that it lies in, if there is one.
    std::byte* block = begin + at;
    if (::madvise(block, page, kPopulateRead) != 0) continue;
    const auto address = reinterpret_cast<uintptr_t>(block);
    const auto sizes = map.sizes(address, address + page);
    if (sizes && sizes->large == 0) blocks.push_back(at / kLargePage);
  }
  ::madvise(begin, mapping.size(), MADV_NORMAL);
  return blocks;
}

}  // namespace tephra

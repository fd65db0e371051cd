// SPDX-License-Identifier: Apache-2.0
// Pages of 2 MiB, through which cores read memory faster than through those of 4 KiB: which bytes
// of this process lie in them, and which parts of a file could.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tephra {

constexpr int64_t kLargePage = 2 << 20;

struct PageSizes {
  int64_t mapped = 0;  // bytes that have a page
  int64_t large = 0;   // those of them in pages of 2 MiB
};
// Nothing where the system does not tell (Linux before 6.7).
std::optional<PageSizes> page_sizes(std::span<const std::byte> bytes);

// Whether memory that this process takes now comes in large pages; nothing where the system does
// not tell. It may say that there are such pages and have none left.
std::optional<bool> large_pages_come();

// Of a file mapped from its first byte on, at a multiple of 2 MiB: the blocks of 2 MiB, counted
// from 0, that the system's cache holds wholly but in small pages. Nothing is read from the disk;
// none where the system does not tell, or not of files of others.
std::vector<int64_t> cached_in_small_pages(int fd, std::span<const std::byte> mapping);

}  // namespace tephra

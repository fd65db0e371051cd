// SPDX-License-Identifier: Apache-2.0
// The layout that reader and writer of token shards share. All numbers are little-endian.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "tephra/base/files.h"

namespace tephra::token_shard {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
inline constexpr uint64_t kVersion = 1;
// magic, u64 version, u8 type, u64 sequences, u64 entries of the document table
inline constexpr int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;

// Tokens and lengths of a shard that is not whole yet.
inline constexpr const char *kBinPartial = ".bin.partial", *kLenPartial = ".len.partial";

inline Path with_suffix(const Path& prefix, const char* suffix) {
  return Path(prefix.string() + suffix);
}

}  // namespace tephra::token_shard

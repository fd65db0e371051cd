// SPDX-License-Identifier: Apache-2.0
// XXH64 of many short texts, with AVX-512 one a lane: FineWeb's hash of five words in a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tephra {

// So many bytes from the beginning of each text on are readable, though it may be shorter.
inline constexpr size_t kXxh64Readable = 128;

// With seed 0, of each text, to out.
void xxh64_each(std::span<const std::string_view> texts, uint64_t* out);

}  // namespace tephra

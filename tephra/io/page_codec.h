// SPDX-License-Identifier: Apache-2.0
// Decompression of whole blocks whose size is known, as pages of Parquet files are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tephra/base/raw_bytes.h"

namespace tephra {

enum class PageCodec { none, snappy, gzip, brotli, zstd, lz4_raw };

// Exactly `size` bytes; Fault::data, with `where` before it, when the block is damaged or of
// another size.
void decompress_page(PageCodec codec, std::string_view from, size_t size, RawBytes& to,
                     const std::string& where);

}  // namespace tephra

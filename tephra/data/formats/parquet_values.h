// SPDX-License-Identifier: Apache-2.0
// The encodings of values in a Parquet page. All reads are checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

// Runs of one value and bit-packed groups of eight ("RLE/bit-packing hybrid"): `count` numbers of
// `width` bits. Returns the bytes that were used.
size_t decode_hybrid(std::string_view bytes, int width, size_t count, std::vector<uint32_t>& out,
                     const std::string& where);

// DELTA_BINARY_PACKED. Returns the bytes that were used.
size_t decode_delta(std::string_view bytes, std::vector<int64_t>& out, size_t most,
                    const std::string& where);

inline constexpr int64_t kDeltaBytes = 7;  // DELTA_BYTE_ARRAY

// `count` strings of a page. Views point into `bytes` or, for DELTA_BYTE_ARRAY, into `held`.
void decode_strings(std::string_view bytes, int64_t encoding, size_t count,
                    std::vector<std::string_view>& out, std::string& held,
                    const std::string& where);

}  // namespace tephra

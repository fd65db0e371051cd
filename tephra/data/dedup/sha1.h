// SPDX-License-Identifier: Apache-2.0
// SHA-1, of which datasketch takes the first four bytes. With the processor's instructions for it
// where there are any.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tephra {

std::array<uint32_t, 5> sha1(std::string_view bytes);  // as big-endian words

// The first four bytes of the digest, little-endian.
uint32_t sha1_prefix(std::string_view bytes);
// Of two texts to out[0] and out[1]: their rounds fill each other's waits.
void sha1_prefix_pair(std::string_view a, std::string_view b, uint32_t* out);

namespace sha1_detail {
// One block of 64 bytes; the plain version is the test's twin.
void plain_block(std::array<uint32_t, 5>& state, const uint8_t* block);
void fast_block(std::array<uint32_t, 5>& state, const uint8_t* block);
void fast_block_pair(std::array<uint32_t, 5>& a, const uint8_t* block_a, std::array<uint32_t, 5>& b,
                     const uint8_t* block_b);
bool has_fast_block();
}  // namespace sha1_detail

}  // namespace tephra

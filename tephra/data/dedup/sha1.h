// SPDX-License-Identifier: Apache-2.0
// SHA-1, of which datasketch takes the first four bytes. One text by the processor's instructions
// for it where there are any, many of them one a lane.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tephra {

std::array<uint32_t, 5> sha1(std::string_view bytes);  // as big-endian words

// The first four bytes of the digest, little-endian.
uint32_t sha1_prefix(std::string_view bytes);
// Of each text, which is not changed until the call ends.
void sha1_prefixes(std::span<const std::string_view> texts, uint32_t* out);

namespace sha1_detail {
inline constexpr std::array<uint32_t, 5> kStart = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                                   0xc3d2e1f0};

// Texts of as many blocks each, padded as SHA-1 has it, one a lane: of lane 4 b + j, sixteen bytes
// number p lie at vector 4 p + j, place b. The first word of each digest.
inline constexpr size_t kMostLanes = 16;
size_t lanes();
void lane_prefixes(const uint8_t* staged, size_t blocks, uint32_t* out);

// Two texts at a time: what is used where lanes are few.
void pair_prefixes(std::span<const std::string_view> texts, uint32_t* out);

// One block of 64 bytes; the plain version is the test's twin.
void plain_block(std::array<uint32_t, 5>& state, const uint8_t* block);
void fast_block(std::array<uint32_t, 5>& state, const uint8_t* block);
void fast_block_pair(std::array<uint32_t, 5>& a, const uint8_t* block_a, std::array<uint32_t, 5>& b,
                     const uint8_t* block_b);
bool has_fast_block();
}  // namespace sha1_detail

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// XXH3 with 64 bits: finds a flipped bit at the speed of memory. It is no signature: somebody who
// wants two contents with one hash can make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tephra {

uint64_t xxh3(std::span<const std::byte> bytes);
inline uint64_t xxh3(std::string_view text) { return xxh3(std::as_bytes(std::span(text))); }

// XXH64, where another program's hashes are to be met.
uint64_t xxh64(std::string_view text, uint64_t seed);

// XXH3 of content that comes in parts.
class Xxh3 {
 public:
  Xxh3();
  void add(std::span<const std::byte> bytes);
  uint64_t value() const;  // of all that was added so far

 private:
  static constexpr size_t kStateBytes = 576;
  alignas(64) std::byte state_[kStateBytes];
};

std::string hash_text(uint64_t hash);                       // sixteen hexadecimal digits
std::optional<uint64_t> parse_hash(std::string_view text);  // nothing when it is not that

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <charconv>
#include <new>

#include "tephra/base/error.h"

namespace tephra {
namespace {

XXH3_state_t* state_in(std::byte* bytes) {
  return std::launder(reinterpret_cast<XXH3_state_t*>(bytes));
}

}  // namespace

uint64_t xxh3(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

uint64_t xxh64(std::string_view text, uint64_t seed) {
  return XXH64(text.data(), text.size(), seed);
}

Xxh3::Xxh3() {
  static_assert(sizeof(XXH3_state_t) <= kStateBytes && alignof(XXH3_state_t) <= 64);
  XXH3_64bits_reset(new (state_) XXH3_state_t);
}

void Xxh3::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_in(state_), bytes.data(), bytes.size());
}

uint64_t Xxh3::value() const {
  return XXH3_64bits_digest(state_in(const_cast<std::byte*>(state_)));
}

std::string hash_text(uint64_t hash) { return format("{:016x}", hash); }

std::optional<uint64_t> parse_hash(std::string_view text) {
  uint64_t hash = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, hash, 16);
  if (text.size() != 16 || error != std::errc() || at != end) return std::nullopt;
  return hash;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/token_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr size_t kMaxTokenBytes = (1 << 16) - 1;

int64_t largest_id(const std::vector<std::pair<std::string_view, int64_t>>& tokens,
                   const std::string& where) {
  int64_t largest = -1;
  for (const auto& [token, id] : tokens) {
    require_data(id >= 0, "{}: token '{}': expected an id of 0 or more, got {}", where,
                 clipped(token, 40), id);
    require_data(token.size() <= kMaxTokenBytes, "{}: token {}: expected at most {} bytes, got {}",
                 where, id, kMaxTokenBytes, token.size());
    largest = std::max(largest, id);
  }
  // A table by id needs memory for the gaps.
  const int64_t limit = 8 * static_cast<int64_t>(tokens.size()) + 65536;
  require_data(largest < limit, "{}: {} tokens: expected ids below {}, got {}", where,
               tokens.size(), limit, largest);
  return largest;
}

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = 0x9e3779b97f4a7c15u ^ bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = std::rotl((hash ^ word) * 0xbf58476d1ce4e5b9u, 29);
  }
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x94d049bb133111ebu;
    hash ^= hash >> 31;
  }
  hash *= 0xd6e8feb86659fd93u;
  return hash ^ hash >> 32;
}

TokenTable::TokenTable(const std::vector<std::pair<std::string_view, int64_t>>& tokens,
                       const std::string& where) {
  entries_.resize(static_cast<size_t>(largest_id(tokens, where) + 1));
  slots_.assign(std::bit_ceil(2 * tokens.size() + 2), kNone);
  for (const auto& [token, id] : tokens) {
    Entry& entry = entries_[at(id)];
    require_data(!entry.used, "{}: id {} belongs to two tokens, '{}' and '{}'", where, id,
                 clipped((*this)[static_cast<int32_t>(id)], 40), clipped(token, 40));
    entry.offset = bytes_.size() & ((size_t{1} << 47) - 1);
    entry.length = token.size() & kMaxTokenBytes;
    entry.used = 1;
    bytes_ += token;
    insert(static_cast<int32_t>(id), where);
  }
}

void TokenTable::insert(int32_t id, const std::string& where) {
  const std::string_view token = (*this)[id];
  size_t slot = hash_bytes(token) & (slots_.size() - 1);
  for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
    require_data((*this)[slots_[slot]] != token, "{}: the token '{}' has two ids, {} and {}", where,
                 clipped(token, 40), slots_[slot], id);
  }
  slots_[slot] = id;
}

int32_t TokenTable::find(std::string_view token) const {
  if (slots_.empty()) return kNone;
  size_t slot = hash_bytes(token) & (slots_.size() - 1);
  for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
    if ((*this)[slots_[slot]] == token) return slots_[slot];
  }
  return kNone;
}

}  // namespace tephra

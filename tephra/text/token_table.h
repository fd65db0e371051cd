// SPDX-License-Identifier: Apache-2.0
// Tokens by id and ids by token: one block of bytes and one open-addressing table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

class TokenTable {
 public:
  static constexpr int32_t kNone = -1;

  // Ids may come in any order and leave gaps. Two tokens with one id, or one token twice, are
  // Fault::data, and so are ids far beyond the number of tokens.
  TokenTable() = default;
  TokenTable(const std::vector<std::pair<std::string_view, int64_t>>& tokens,
             const std::string& where);

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }  // largest id + 1
  int32_t find(std::string_view token) const;
  bool has(int64_t id) const { return id >= 0 && id < size() && entries_[at(id)].used; }
  std::string_view operator[](int32_t id) const {
    const Entry& entry = entries_[at(id)];
    return std::string_view(bytes_).substr(entry.offset, entry.length);
  }

 private:
  struct Entry {
    size_t offset : 47 = 0;
    size_t used : 1 = 0;
    size_t length : 16 = 0;
  };
  static size_t at(int64_t id) { return static_cast<size_t>(id); }
  void insert(int32_t id, const std::string& where);

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<int32_t> slots_;  // a power of two of them, at most half full
};

uint64_t hash_bytes(std::string_view bytes);

}  // namespace tephra

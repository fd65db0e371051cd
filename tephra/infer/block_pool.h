// SPDX-License-Identifier: Apache-2.0
// Who holds which block of the decoding cache. A block has the keys and values of some tokens in a
// row. Blocks that prefill filled are remembered by the tokens they and their predecessors hold, so
// that another prompt with the same beginning can share them; they stay until the room is needed.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace tephra {

class BlockPool {
 public:
  using Block = int32_t;

  BlockPool(int64_t blocks, int64_t block_tokens);

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int64_t block_tokens() const { return block_tokens_; }
  // Blocks that nobody holds: empty ones, and remembered ones that would be given up.
  int64_t available() const { return static_cast<int64_t>(free_.size() + idle_.size()); }
  int64_t remembered() const { return static_cast<int64_t>(known_.size()); }
  int64_t held() const { return size() - available(); }

  // A block for the caller alone, the one behind `after` where that is empty. The block that was
  // idle longest is given up when none is empty; nothing when all are held.
  std::optional<Block> take(std::optional<Block> after = std::nullopt);
  void hold(Block block);  // one more holder of a block that is held
  void release(Block block);

  // The longest remembered run of whole blocks that `tokens` starts with, now held by the caller,
  // too.
  std::vector<Block> share(std::span<const int32_t> tokens);
  // How many blocks share() would find, and how many of them nobody holds yet.
  struct Found {
    int64_t blocks = 0, idle = 0;
  };
  Found look_up(std::span<const int32_t> tokens) const;

  // Remembers that `block` holds these tokens behind those of `before` (nothing: at the start).
  // Only if `before` is remembered itself, and no other block is already known for the same.
  void remember(Block block, std::optional<Block> before, std::span<const int32_t> tokens);

 private:
  struct Entry {
    int64_t holders = 0;
    bool known = false;
    uint64_t id = 0;      // of what it holds; never used again
    uint64_t parent = 0;  // id of the block before, 0 at the start
    uint64_t hash = 0;    // its key among the known
    std::vector<int32_t> tokens;
    std::list<Block>::iterator idle;  // where in idle_ it is, when nobody holds it
  };

  Entry& entry(Block block) { return entries_[static_cast<size_t>(block)]; }
  const Entry& entry(Block block) const { return entries_[static_cast<size_t>(block)]; }
  static uint64_t hash_of(uint64_t parent, std::span<const int32_t> tokens);
  std::optional<Block> find(uint64_t parent, std::span<const int32_t> tokens) const;
  std::vector<Block> find_run(std::span<const int32_t> tokens) const;
  void unlearn(Block block);

  int64_t block_tokens_;
  std::vector<Entry> entries_;
  std::set<Block> free_;   // empty
  std::list<Block> idle_;  // known and held by nobody, longest first
  std::unordered_multimap<uint64_t, Block> known_;
  uint64_t next_id_ = 1;
};

}  // namespace tephra

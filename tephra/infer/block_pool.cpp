// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/block_pool.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"

namespace tephra {

BlockPool::BlockPool(int64_t blocks, int64_t block_tokens)
    : block_tokens_(block_tokens), entries_(static_cast<size_t>(blocks)) {
  require(blocks >= 1 && block_tokens >= 1,
          "block pool: expected at least one block of one token, got {} of {}", blocks,
          block_tokens);
  for (int64_t i = 0; i < blocks; ++i) free_.insert(static_cast<Block>(i));
}

std::optional<BlockPool::Block> BlockPool::take(std::optional<Block> after) {
  Block block = -1;
  if (free_.empty() && idle_.empty()) return std::nullopt;
  if (free_.empty()) {
    block = idle_.front();
    unlearn(block);
    idle_.pop_front();
  } else {
    auto at = after ? free_.find(*after + 1) : free_.end();
    if (at == free_.end()) at = free_.begin();
    block = *at;
    free_.erase(at);
  }
  entry(block).holders = 1;
  return block;
}

void BlockPool::hold(Block block) {
  TEPHRA_ASSERT(entry(block).holders > 0, "a block gets one more holder beside the first");
  ++entry(block).holders;
}

void BlockPool::release(Block block) {
  Entry& e = entry(block);
  TEPHRA_ASSERT(e.holders > 0, "a block is released by someone who holds it");
  if (--e.holders > 0) return;
  if (e.known) {
    e.idle = idle_.insert(idle_.end(), block);
  } else {
    free_.insert(block);
  }
}

uint64_t BlockPool::hash_of(uint64_t parent, std::span<const int32_t> tokens) {
  Xxh3 hash;
  hash.add(std::as_bytes(std::span(&parent, 1)));
  hash.add(std::as_bytes(tokens));
  return hash.value();
}

// Hashes only find candidates: tokens are compared, so what is shared is always the same text.
std::optional<BlockPool::Block> BlockPool::find(uint64_t parent,
                                                std::span<const int32_t> tokens) const {
  const auto [begin, end] = known_.equal_range(hash_of(parent, tokens));
  for (auto it = begin; it != end; ++it) {
    const Entry& e = entry(it->second);
    if (e.parent == parent && std::equal(tokens.begin(), tokens.end(), e.tokens.begin())) {
      return it->second;
    }
  }
  return std::nullopt;
}

std::vector<BlockPool::Block> BlockPool::find_run(std::span<const int32_t> tokens) const {
  std::vector<Block> run;
  const auto each = static_cast<size_t>(block_tokens_);
  uint64_t parent = 0;
  for (size_t at = 0; at + each <= tokens.size(); at += each) {
    const auto found = find(parent, tokens.subspan(at, each));
    if (!found) break;
    run.push_back(*found);
    parent = entry(*found).id;
  }
  return run;
}

BlockPool::Found BlockPool::look_up(std::span<const int32_t> tokens) const {
  const std::vector<Block> run = find_run(tokens);
  const auto idle =
      std::count_if(run.begin(), run.end(), [&](Block block) { return entry(block).holders == 0; });
  return {static_cast<int64_t>(run.size()), idle};
}

std::vector<BlockPool::Block> BlockPool::share(std::span<const int32_t> tokens) {
  const std::vector<Block> run = find_run(tokens);
  for (const Block block : run) {
    Entry& e = entry(block);
    if (e.holders++ == 0) idle_.erase(e.idle);
  }
  return run;
}

void BlockPool::remember(Block block, std::optional<Block> before,
                         std::span<const int32_t> tokens) {
  TEPHRA_ASSERT(static_cast<int64_t>(tokens.size()) == block_tokens_, "whole blocks are shared");
  Entry& e = entry(block);
  TEPHRA_ASSERT(e.holders > 0 && !e.known, "a block is remembered once, by who filled it");
  if (before && !entry(*before).known) return;
  const uint64_t parent = before ? entry(*before).id : 0;
  if (find(parent, tokens)) return;
  e.known = true;
  e.id = next_id_++;
  e.parent = parent;
  e.hash = hash_of(parent, tokens);
  e.tokens.assign(tokens.begin(), tokens.end());
  known_.emplace(e.hash, block);
}

void BlockPool::unlearn(Block block) {
  Entry& e = entry(block);
  const auto [begin, end] = known_.equal_range(e.hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second != block) continue;
    known_.erase(it);
    break;
  }
  e.known = false;
  e.tokens.clear();
}

}  // namespace tephra

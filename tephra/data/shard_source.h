// SPDX-License-Identifier: Apache-2.0
// Token shards as a source: cut into contexts, read once each per epoch, in an order that a keyed
// permutation gives anew for every epoch.
#pragma once

#include <memory>
#include <vector>

#include "tephra/data/token_source.h"
#include "tephra/io/token_shard.h"

namespace tephra {

class ShardSource : public TokenSource {
 public:
  // Tokens must be below `vocab_size`.
  ShardSource(std::string name, std::vector<std::shared_ptr<const TokenShard>> shards,
              int64_t vocab_size, uint64_t seed);

  Sample sample(int64_t position, int64_t context) const override;
  void check(int64_t context) const override;
  int64_t samples_per_epoch(int64_t context) const override;
  std::string identity() const override;

 private:
  std::vector<std::shared_ptr<const TokenShard>> shards_;
  int64_t vocab_size_;
  uint64_t seed_;
};

}  // namespace tephra

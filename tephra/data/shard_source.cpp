// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/shard_source.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/text.h"
#include "tephra/data/permutation.h"

namespace tephra {
namespace {

// A sample needs one token more than it has inputs, for the last target. What is left at the end of
// a shard is not read.
int64_t samples_of(const TokenShard& shard, int64_t context) {
  return std::max<int64_t>(0, shard.tokens() - 1) / context;
}

Sample read_sample(const TokenShard& shard, int64_t first, int64_t context, int64_t vocab_size) {
  Sample sample;
  std::vector<int32_t> tokens(static_cast<size_t>(context) + 1);
  shard.read(first, tokens, vocab_size);
  sample.inputs.assign(tokens.begin(), tokens.end() - 1);
  sample.targets.assign(tokens.begin() + 1, tokens.end());
  int64_t begin = first;
  for (int64_t document = shard.document_of(first); begin < first + context; ++document) {
    const int64_t document_end = shard.document_begin(document + 1);
    const int64_t end = std::min(document_end, first + context);
    if (end == begin) continue;  // an empty document
    sample.lengths.push_back(end - begin);
    // The first token of a document is nobody's target.
    if (document_end == end) sample.targets[static_cast<size_t>(end - first - 1)] = kNoTarget;
    begin = end;
  }
  return sample;
}

}  // namespace

ShardSource::ShardSource(std::string name, std::vector<std::shared_ptr<const TokenShard>> shards,
                         int64_t vocab_size, uint64_t seed)
    : TokenSource(std::move(name)),
      shards_(std::move(shards)),
      vocab_size_(vocab_size),
      seed_(seed) {
  require(!shards_.empty(), "source '{}': has no token shards", this->name());
}

int64_t ShardSource::samples_per_epoch(int64_t context) const {
  int64_t count = 0;
  for (const auto& shard : shards_) count += samples_of(*shard, context);
  return count;
}

void ShardSource::check(int64_t context) const {
  int64_t longest = 0;
  for (const auto& shard : shards_) longest = std::max(longest, shard->tokens());
  require(samples_per_epoch(context) > 0,
          "source '{}': its longest shard has {} tokens; a context of {} needs one more than that",
          name(), human_count(longest), human_count(context));
}

Sample ShardSource::sample(int64_t position, int64_t context) const {
  const int64_t count = samples_per_epoch(context);
  TEPHRA_ASSERT(count > 0 && position >= 0, "check() said that there are samples");
  // A context has epochs of its own, so contexts do not share an order either.
  const RngKey key{seed_, stream_of(format("{}/{}", name(), context)),
                   static_cast<uint32_t>(position / count)};
  int64_t index = Permutation(count, key)(position % count);
  for (const auto& shard : shards_) {
    const int64_t here = samples_of(*shard, context);
    if (index < here) return read_sample(*shard, index * context, context, vocab_size_);
    index -= here;
  }
  throw Error(Fault::internal, "a sample lies beyond all shards");
}

// Names and sizes, not paths: a moved folder is the same data.
std::string ShardSource::identity() const {
  std::string all;
  int64_t tokens = 0;
  for (const auto& shard : shards_) {
    all += format("{}:{}:{};", shard->prefix().filename().string(), shard->tokens(),
                  shard->documents());
    tokens += shard->tokens();
  }
  return format("shards {} tokens {} seed {} hash {}", shards_.size(), tokens, seed_,
                hash_text(xxh3(all)));
}

}  // namespace tephra

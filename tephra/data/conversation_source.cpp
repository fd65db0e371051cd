// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/conversation_source.h"

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/data/encoder_pool.h"
#include "tephra/data/packing.h"
#include "tephra/data/permutation.h"

namespace tephra {
namespace {

void append_chat(Sample& sample, const EncodedChat& chat) {
  for (size_t i = 0; i < chat.tokens.size(); ++i) {
    const bool counts = i + 1 < chat.tokens.size() && chat.learnt[i + 1];
    sample.inputs.push_back(chat.tokens[i]);
    sample.targets.push_back(counts ? chat.tokens[i + 1] : kNoTarget);
  }
  sample.lengths.push_back(static_cast<int64_t>(chat.tokens.size()));
}

}  // namespace

ConversationSource::ConversationSource(std::string name, std::vector<Conversation> conversations,
                                       std::shared_ptr<const ChatRenderer> renderer,
                                       std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed)
    : TokenSource(std::move(name)),
      conversations_(std::move(conversations)),
      renderer_(std::move(renderer)),
      tokenizer_(std::move(tokenizer)),
      seed_(seed),
      padding_(tokenizer_->pad() ? *tokenizer_->pad() : end_token(*tokenizer_)) {}

ConversationSource::Packed ConversationSource::pack(int64_t context) const {
  Packed result;
  Encoder encoder(*tokenizer_);
  const auto length = [&](const Conversation& conversation) {
    return static_cast<int64_t>(encode_chat((*renderer_)(conversation), encoder).tokens.size());
  };
  std::vector<int64_t> lengths;
  for (Conversation conversation : conversations_) {
    if (!trim_conversation(conversation, context, length, *tokenizer_)) {
      ++result.dropped;
      continue;
    }
    const std::vector<ChatPiece> pieces = (*renderer_)(conversation);
    if (leaves_out_reasoning(conversation, pieces)) ++result.without_reasoning;
    result.chats.push_back(encode_chat(pieces, encoder));
    lengths.push_back(static_cast<int64_t>(result.chats.back().tokens.size()));
  }
  result.packs = pack_best_fit(lengths, context);
  warn(result, context);
  return result;
}

void ConversationSource::warn(const Packed& packed, int64_t context) const {
  if (packed.dropped > 0) {
    log_warning(
        "source '{}': {} of {} conversations have answers longer than a context of {} and "
        "are left out",
        name(), packed.dropped, conversations_.size(), context);
  }
  if (packed.without_reasoning > 0) {
    log_warning("source '{}': {} does not write the reasoning of {} of {} conversations", name(),
                renderer_->where(), packed.without_reasoning, conversations_.size());
  }
}

const ConversationSource::Packed& ConversationSource::packed(int64_t context) const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const Packed>& entry = by_context_[context];
  if (!entry) entry = std::make_unique<const Packed>(pack(context));
  return *entry;
}

int64_t ConversationSource::samples_per_epoch(int64_t context) const {
  return static_cast<int64_t>(packed(context).packs.size());
}

int64_t ConversationSource::dropped(int64_t context) const { return packed(context).dropped; }

void ConversationSource::check(int64_t context) const {
  require(samples_per_epoch(context) > 0,
          "source '{}': none of its {} conversations fits a context of {}", name(),
          conversations_.size(), context);
}

Sample ConversationSource::sample(int64_t position, int64_t context) const {
  const Packed& all = packed(context);
  const auto count = static_cast<int64_t>(all.packs.size());
  const RngKey key{seed_, stream_of(format("{}/{}", name(), context)),
                   static_cast<uint32_t>(position / count)};
  Sample sample;
  const int64_t pack = Permutation(count, key)(position % count);
  for (const int64_t i : all.packs[static_cast<size_t>(pack)]) {
    append_chat(sample, all.chats[static_cast<size_t>(i)]);
  }
  sample.padding = context - static_cast<int64_t>(sample.inputs.size());
  if (sample.padding > 0) {
    sample.inputs.resize(static_cast<size_t>(context), padding_);
    sample.targets.resize(static_cast<size_t>(context), kNoTarget);
    sample.lengths.push_back(sample.padding);
  }
  return sample;
}

std::string ConversationSource::identity() const {
  Xxh3 hash;
  for (const Conversation& conversation : conversations_) {
    for (const ChatPiece& piece : (*renderer_)(conversation)) {
      hash.add(std::as_bytes(std::span(piece.text)));
    }
  }
  return format("conversations {} seed {} vocabulary {} hash {}", conversations_.size(), seed_,
                tokenizer_->vocab_size(), hash_text(hash.value()));
}

}  // namespace tephra

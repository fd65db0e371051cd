// SPDX-License-Identifier: Apache-2.0
// Conversations as a source: trimmed and packed for each context that is asked for, the packs in an
// order of their own in every epoch. Tokens are kept in memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tephra/data/chat_renderer.h"
#include "tephra/data/token_source.h"

namespace tephra {

class ConversationSource : public TokenSource {
 public:
  ConversationSource(std::string name, std::vector<Conversation> conversations,
                     std::shared_ptr<const ChatRenderer> renderer,
                     std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed);

  Sample sample(int64_t position, int64_t context) const override;
  void check(int64_t context) const override;
  int64_t samples_per_epoch(int64_t context) const override;
  std::string identity() const override;

  // Conversations that are left out at this context because their answers alone are longer.
  int64_t dropped(int64_t context) const;

 private:
  struct Packed {
    std::vector<EncodedChat> chats;
    std::vector<std::vector<int64_t>> packs;  // of indices into chats
    int64_t dropped = 0;
    int64_t without_reasoning = 0;  // the template does not write it
  };
  const Packed& packed(int64_t context) const;
  Packed pack(int64_t context) const;
  void warn(const Packed& packed, int64_t context) const;

  std::vector<Conversation> conversations_;
  std::shared_ptr<const ChatRenderer> renderer_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  uint64_t seed_;
  int32_t padding_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::unique_ptr<const Packed>> by_context_;
};

}  // namespace tephra

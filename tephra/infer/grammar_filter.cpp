// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/grammar_filter.h"

namespace tephra {
namespace {

constexpr size_t kManyStates = 1 << 13;

}  // namespace

GrammarMasks::GrammarMasks(std::shared_ptr<const TokenTrie> trie, ByteGrammar grammar,
                           ByteGrammar::Rule start, std::vector<int32_t> end_tokens,
                           int64_t vocab_size)
    : trie_(std::move(trie)),
      automaton_(std::move(grammar), start),
      end_tokens_(std::move(end_tokens)),
      vocab_size_(vocab_size) {}

std::span<const uint64_t> GrammarMasks::allowed(ByteAutomaton::State state) {
  const auto known = masks_.find(state);
  if (known != masks_.end()) return known->second;
  std::vector<uint64_t> bits(static_cast<size_t>(vocab_size_ + 63) / 64, 0);
  bool any = trie_->allowed(automaton_, state, bits);
  if (automaton_.accepts(state)) {
    for (const int32_t id : end_tokens_) {
      bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
      any = true;
    }
  }
  require_data(any, "no token of the vocabulary goes on with a text of the form asked for");
  if (masks_.size() >= kMostMasks) masks_.clear();
  return masks_[state] = std::move(bits);
}

ByteAutomaton::State GrammarMasks::after(ByteAutomaton::State state, int32_t token) {
  const ByteAutomaton::State next = automaton_.step(state, trie_->bytes(token));
  if (automaton_.states() > kManyStates) crowded_ = true;
  TEPHRA_ASSERT(next != ByteAutomaton::kDead, "a token was chosen that the grammar allows");
  return next;
}

}  // namespace tephra

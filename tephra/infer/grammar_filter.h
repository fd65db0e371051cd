// SPDX-License-Identifier: Apache-2.0
// Keeps an answer to a grammar: at each step the tokens with which the text can still become one of
// the grammar's.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tephra/infer/engine_request.h"
#include "tephra/text/token_trie.h"

namespace tephra {

// Shared by all answers of one grammar; used by the engine's thread alone, one at a time.
class GrammarMasks {
 public:
  GrammarMasks(std::shared_ptr<const TokenTrie> trie, ByteGrammar grammar, ByteGrammar::Rule start,
               std::vector<int32_t> end_tokens, int64_t vocab_size);

  ByteAutomaton::State start() const { return automaton_.start(); }
  // Bits by id; valid until the next call. Fault::data when no token goes on.
  std::span<const uint64_t> allowed(ByteAutomaton::State state);
  ByteAutomaton::State after(ByteAutomaton::State state, int32_t token);
  // It has seen so much that a fresh one should take its place. Any thread may ask.
  bool crowded() const { return crowded_; }

 private:
  static constexpr size_t kMostMasks = 512;

  std::shared_ptr<const TokenTrie> trie_;
  ByteAutomaton automaton_;
  std::vector<int32_t> end_tokens_;
  int64_t vocab_size_;
  std::atomic<bool> crowded_ = false;
  std::unordered_map<ByteAutomaton::State, std::vector<uint64_t>> masks_;
};

class GrammarFilter : public TokenFilter {
 public:
  explicit GrammarFilter(std::shared_ptr<GrammarMasks> masks)
      : masks_(std::move(masks)), state_(masks_->start()) {}

  std::span<const uint64_t> allowed() override { return masks_->allowed(state_); }
  void accept(int32_t id) override { state_ = masks_->after(state_, id); }

 private:
  std::shared_ptr<GrammarMasks> masks_;
  ByteAutomaton::State state_;
};

}  // namespace tephra

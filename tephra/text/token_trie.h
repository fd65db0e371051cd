// SPDX-License-Identifier: Apache-2.0
// The bytes of all tokens of a vocabulary as one tree, so that a question to each of them is asked
// once for what they have in common.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tephra/text/byte_grammar.h"

namespace tephra {

class Tokenizer;

class TokenTrie {
 public:
  // By id; a token without bytes is in no text.
  explicit TokenTrie(std::vector<std::string> tokens);
  // Special tokens are left out, but for those in `specials`, which count as their texts.
  static TokenTrie of(const Tokenizer& tokenizer, std::span<const std::string> specials);

  int64_t tokens() const { return static_cast<int64_t>(bytes_.size()); }
  const std::string& bytes(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }

  // Sets the bits of all tokens with which a text may go on; false when there are none.
  bool allowed(ByteAutomaton& automaton, ByteAutomaton::State state,
               std::span<uint64_t> bits) const;

 private:
  // Nodes in the order of a walk that goes down first.
  struct Node {
    int32_t behind;  // the first node that is not below this one
    int32_t first_token, last_token;
    uint16_t depth;
    unsigned char byte;
  };

  std::vector<std::string> bytes_;
  std::vector<Node> nodes_;
  std::vector<int32_t> ids_;  // sorted by their bytes
};

}  // namespace tephra

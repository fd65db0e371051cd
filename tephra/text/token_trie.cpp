// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/token_trie.h"

#include <algorithm>

#include "tephra/text/tokenizer.h"

namespace tephra {
namespace {

constexpr size_t kLongestToken = 4096;  // longer ones are left out

size_t common_prefix(const std::string& a, const std::string& b) {
  const size_t most = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < most && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

TokenTrie::TokenTrie(std::vector<std::string> tokens) : bytes_(std::move(tokens)) {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    const bool usable = !bytes_[i].empty() && bytes_[i].size() <= kLongestToken;
    if (usable) ids_.push_back(static_cast<int32_t>(i));
  }
  std::sort(ids_.begin(), ids_.end(), [&](int32_t a, int32_t b) {
    const int order = bytes(a).compare(bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<int32_t> path;  // nodes from the root to the last token's end
  for (size_t i = 0; i < ids_.size(); ++i) {
    const std::string& text = bytes(ids_[i]);
    const size_t kept = i == 0 ? 0 : common_prefix(bytes(ids_[i - 1]), text);
    while (path.size() > kept) {
      nodes_[static_cast<size_t>(path.back())].behind = static_cast<int32_t>(nodes_.size());
      path.pop_back();
    }
    for (size_t d = kept; d < text.size(); ++d) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      const auto none = static_cast<int32_t>(i);
      nodes_.push_back(
          {0, none, none, static_cast<uint16_t>(d), static_cast<unsigned char>(text[d])});
    }
    nodes_[static_cast<size_t>(path.back())].last_token = static_cast<int32_t>(i) + 1;
  }
  for (const int32_t node : path) {
    nodes_[static_cast<size_t>(node)].behind = static_cast<int32_t>(nodes_.size());
  }
}

TokenTrie TokenTrie::of(const Tokenizer& tokenizer, std::span<const std::string> specials) {
  std::vector<std::string> tokens(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.has(id)) continue;
    if (tokenizer.is_special(id)) {
      const std::string text = tokenizer.token(id);
      const bool shown = std::find(specials.begin(), specials.end(), text) != specials.end();
      if (shown) tokens[static_cast<size_t>(id)] = text;
    } else {
      tokens[static_cast<size_t>(id)] = tokenizer.bytes(id);
    }
  }
  return TokenTrie(std::move(tokens));
}

bool TokenTrie::allowed(ByteAutomaton& automaton, ByteAutomaton::State state,
                        std::span<uint64_t> bits) const {
  std::vector<ByteAutomaton::State> states(kLongestToken + 1);
  states[0] = state;
  bool any = false;
  for (size_t i = 0; i < nodes_.size();) {
    const Node& node = nodes_[i];
    const ByteAutomaton::State next = automaton.step(states[node.depth], node.byte);
    if (next == ByteAutomaton::kDead) {
      i = static_cast<size_t>(node.behind);
      continue;
    }
    states[size_t{node.depth} + 1] = next;
    for (int32_t t = node.first_token; t < node.last_token; ++t) {
      const auto id = static_cast<size_t>(ids_[static_cast<size_t>(t)]);
      if (id / 64 < bits.size()) bits[id / 64] |= uint64_t{1} << (id % 64);
      any = true;
    }
    ++i;
  }
  return any;
}

}  // namespace tephra

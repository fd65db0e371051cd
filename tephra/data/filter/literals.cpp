// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/filter/literals.h"

#include <deque>

#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr int32_t kNone = -1;

// Bytes of characters beyond ASCII count as words: letters nearly always.
bool is_word_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (kAsciiBits[byte] & kWord) != 0;
}

}  // namespace

Literals::Literals(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::erase_if(entries_, [](const Entry& entry) { return entry.text.empty(); });
  same_.assign(entries_.size(), kNone);
  states_.emplace_back().next.fill(kNone);
  for (size_t i = 0; i < entries_.size(); ++i) add(i);
  link();
}

void Literals::add(size_t entry) {
  size_t state = 0;
  for (const char c : entries_[entry].text) {
    const auto byte = static_cast<unsigned char>(c);
    if (states_[state].next[byte] == kNone) {
      states_[state].next[byte] = static_cast<int32_t>(states_.size());
      states_.emplace_back().next.fill(kNone);
    }
    state = static_cast<size_t>(states_[state].next[byte]);
  }
  same_[entry] = states_[state].entry;
  states_[state].entry = static_cast<int32_t>(entry);
}

// Breadth first, so the state of a shorter suffix is complete before it is asked.
void Literals::link() {
  std::vector<int32_t> fail(states_.size(), 0);
  std::deque<size_t> queue;
  for (int32_t& next : states_[0].next) {
    if (next == kNone) {
      next = 0;
    } else {
      queue.push_back(static_cast<size_t>(next));
    }
  }
  while (!queue.empty()) {
    const size_t at = queue.front();
    queue.pop_front();
    const State& shorter = states_[static_cast<size_t>(fail[at])];
    states_[at].suffix = shorter.entry != kNone ? fail[at] : shorter.suffix;
    for (size_t byte = 0; byte < 256; ++byte) {
      int32_t& next = states_[at].next[byte];
      if (next == kNone) {
        next = shorter.next[byte];
      } else {
        fail[static_cast<size_t>(next)] = shorter.next[byte];
        queue.push_back(static_cast<size_t>(next));
      }
    }
  }
}

void Literals::found(size_t entry, std::string_view text, size_t end, std::span<int64_t> counts,
                     std::vector<size_t>& ends) const {
  for (auto each = static_cast<int32_t>(entry); each != kNone;) {
    const auto i = static_cast<size_t>(each);
    const Entry& literal = entries_[i];
    const size_t begin = end - literal.text.size();
    const bool inside_word = literal.whole_word && ((begin > 0 && is_word_byte(text[begin - 1])) ||
                                                    (end < text.size() && is_word_byte(text[end])));
    if (begin >= ends[i] && !inside_word) {
      ends[i] = end;
      ++counts[literal.group];
    }
    each = same_[i];
  }
}

void Literals::count(std::string_view text, std::span<int64_t> counts,
                     std::vector<size_t>& ends) const {
  if (entries_.empty()) return;
  ends.assign(entries_.size(), 0);
  size_t state = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    state = static_cast<size_t>(states_[state].next[static_cast<unsigned char>(text[i])]);
    if (states_[state].entry != kNone) {
      found(static_cast<size_t>(states_[state].entry), text, i + 1, counts, ends);
    }
    for (int32_t s = states_[state].suffix; s != kNone;
         s = states_[static_cast<size_t>(s)].suffix) {
      found(static_cast<size_t>(states_[static_cast<size_t>(s)].entry), text, i + 1, counts, ends);
    }
  }
}

}  // namespace tephra

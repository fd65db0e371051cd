// SPDX-License-Identifier: Apache-2.0
// How often any of many literal strings occurs, in one pass (Aho and Corasick, 1975). Each literal
// is counted as Python's str.count does it: from left to right, without overlap with itself.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

class Literals {
 public:
  struct Entry {
    std::string text;
    size_t group = 0;         // whose count it belongs to
    bool whole_word = false;  // no word character may stand before or after it
  };

  explicit Literals(std::vector<Entry> entries);

  bool empty() const { return entries_.empty(); }

  // Adds to counts[group]. `ends` is scratch of the caller.
  void count(std::string_view text, std::span<int64_t> counts, std::vector<size_t>& ends) const;

 private:
  struct State {
    std::array<int32_t, 256> next;
    int32_t entry = -1;   // the first literal that ends here
    int32_t suffix = -1;  // the longest proper suffix at which a literal ends
  };

  void add(size_t entry);
  void link();
  void found(size_t entry, std::string_view text, size_t end, std::span<int64_t> counts,
             std::vector<size_t>& ends) const;

  std::vector<Entry> entries_;
  std::vector<int32_t> same_;  // the next literal with the same text, or -1
  std::vector<State> states_;
};

}  // namespace tephra

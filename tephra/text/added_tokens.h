// SPDX-License-Identifier: Apache-2.0
// Added tokens: found in the text before anything else, leftmost first and longest of those.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/function_ref.h"
#include "tephra/base/json.h"

namespace tephra {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
  bool normalized = false;   // looked for in normalised text
};

AddedToken parse_added_token(const Fields& fields);

// Finds added tokens. Immutable once made.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Hands out the text from left to right: stretches of plain text (never empty), and tokens.
  void split(std::string_view text, FunctionRef<void(std::string_view plain)> on_text,
             FunctionRef<void(int32_t id)> on_token) const;

  bool empty() const { return tokens_.empty(); }

 private:
  size_t next_candidate(std::string_view text, size_t at) const;
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // by content
  std::vector<bool> first_bytes_;
  int only_first_byte_ = -1;  // when all begin alike
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Cuts a template into tokens as jinja2 does with trim_blocks and lstrip_blocks on: the newline
// after a block or comment tag goes, and so do the blanks before one that starts its line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tephra/text/jinja_value.h"

namespace tephra::jinja {

enum class TokenKind {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,
  end,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // the data, name, operator, or the string's content
  Value value;       // of a literal
};

// A Failure's text begins with its line: "line 3: ...".
std::vector<Token> tokenize(std::string_view source);

}  // namespace tephra::jinja

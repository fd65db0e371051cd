// SPDX-License-Identifier: Apache-2.0
// Results, on stdout. Whether they could be written is checked once, at the end of the command.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "tephra/base/format.h"
#include "tephra/base/json.h"
#include "tephra/base/table.h"

namespace tephra {

// As it is: a model may write any byte, zero too.
inline void print_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// One line.
template <class... Args>
void print(FormatString<Args...> text, const Args&... args) {
  print_text(tephra::format<Args...>(text, args...) + "\n");
}

inline void print_json(const Json& document) { print("{}", document.dump(2)); }

// A table that goes to stdout.
class Table : public TextTable {
 public:
  using TextTable::TextTable;

  void print() const;
};

}  // namespace tephra

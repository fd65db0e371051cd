// SPDX-License-Identifier: Apache-2.0
// Results, on stdout. Whether they could be written is checked once, at the end of the command.
#pragma once

#include <cstdio>
#include <string>

#include "tephra/base/format.h"
#include "tephra/base/json.h"
#include "tephra/base/table.h"

namespace tephra {

// One line.
template <class... Args>
void print(FormatString<Args...> text, const Args&... args) {
  std::fputs((tephra::format<Args...>(text, args...) + "\n").c_str(), stdout);
}

inline void print_json(const Json& document) { print("{}", document.dump(2)); }

// A table that goes to stdout.
class Table : public TextTable {
 public:
  using TextTable::TextTable;

  void print() const;
};

}  // namespace tephra

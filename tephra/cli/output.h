// SPDX-License-Identifier: Apache-2.0
// Results, on stdout. Whether they could be written is checked once, at the end of the command.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tephra/base/format.h"
#include "tephra/base/json.h"

namespace tephra {

// One line.
template <class... Args>
void print(FormatString<Args...> text, const Args&... args) {
  std::fputs((tephra::format<Args...>(text, args...) + "\n").c_str(), stdout);
}

inline void print_json(const Json& document) { print("{}", document.dump(2)); }

// Rows of cells with aligned columns, two spaces apart. The first row is the heading.
class Table {
 public:
  enum class Align { left, right };

  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print() const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Rows of cells with aligned columns, two spaces apart. The first row is the heading.
#pragma once

#include <string>
#include <vector>

namespace tephra {

class TextTable {
 public:
  enum class Align { left, right };

  explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;  // a newline after every row

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/table.h"

#include <algorithm>

#include "tephra/base/format.h"

namespace tephra {

std::string TextTable::text() const {
  std::vector<size_t> width(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      line += columns_[c] == Align::left ? format("{:<{}}", row[c], width[c])
                                         : format("{:>{}}", row[c], width[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace tephra

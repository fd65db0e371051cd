// SPDX-License-Identifier: Apache-2.0
// Until base/text.h and base/log.h are here.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace tephra {

inline size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

inline std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  size_t distance = word.size() / 2 + 1;
  for (const std::string& name : names) {
    const size_t d = edit_distance(word, name);
    if (d < distance) distance = d, best = name;
  }
  return best;
}

inline bool quiet_requested = false;
inline void set_quiet(bool quiet) { quiet_requested = quiet; }

}  // namespace tephra

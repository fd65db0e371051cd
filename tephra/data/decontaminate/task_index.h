// SPDX-License-Identifier: Apache-2.0
// Runs of words of benchmark tasks, and the documents in which one of them stands.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/data/dedup/normal_words.h"

namespace tephra {

class TaskIndex {
 public:
  // Tasks are NAME=PATH or PATH (whose name is the file's): .jsonl files (.gz, .zst), of which all
  // strings count, or .txt files, of which each line does. `words` in a row make a match. Strings
  // with fewer words, but at least `least`, match as a whole.
  TaskIndex(std::span<const std::string> tasks, int64_t words, int64_t least);

  struct Match {
    size_t task = 0;
    std::string words;
  };

  // The first match in the text; `scratch` is the caller's, one a thread.
  std::optional<Match> find(std::string_view text, NormalWords& scratch) const;

  const std::vector<std::string>& names() const { return names_; }
  int64_t entries() const { return static_cast<int64_t>(by_hash_.size()); }
  int64_t skipped() const { return skipped_; }  // strings with too few words

 private:
  void add_file(const Path& path, size_t task);
  void add_text(std::string_view text, size_t task);

  size_t words_, least_;
  std::vector<std::string> names_;
  std::unordered_map<uint64_t, uint32_t> by_hash_;  // of words in a row: the first task with them
  std::vector<size_t> lengths_;                     // that occur, the longest first
  int64_t skipped_ = 0;
};

}  // namespace tephra

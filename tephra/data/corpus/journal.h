// SPDX-License-Identifier: Apache-2.0
// How far the work on one file of a corpus is, on disk: the entry tells a state to which the
// outputs can be cut back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/data/corpus/tally.h"

namespace tephra {

struct JournalEntry {
  int64_t offset = 0;             // of the decompressed input
  int64_t row = 0;                // lines so far
  std::vector<int64_t> out_size;  // bytes of each stream
  bool finished = false;
  std::string input;         // which file it is (mark_of_file), of a stage that reads it itself
  std::vector<Json> tables;  // of each stream that is a Parquet file, how far it is
  Tally tally;
  // Of a stage that is fed by another in the same pass: that one's state, and what it has handed
  // over that was not worked on yet.
  std::vector<JournalEntry> before;
  std::string rest;
};

// A text behind its hash, as a line: bytes that never reached the disk have another one.
std::string hashed_line(std::string_view text);
std::optional<std::string_view> checked_line(std::string_view line);  // the text

class Journal {
 public:
  Journal(const Path& path, size_t samples) : path_(path), samples_(samples) {}

  // What was written last; nothing when there is none, or it is damaged.
  std::optional<JournalEntry> last() const;
  void write(const JournalEntry& entry) const;            // on disk when it returns
  void write_unflushed(const JournalEntry& entry) const;  // for who flushes the disk afterwards
  const Path& path() const { return path_; }

 private:
  Path path_;
  size_t samples_;
};

}  // namespace tephra

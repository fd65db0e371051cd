// SPDX-License-Identifier: Apache-2.0
// Files of a corpus that are worked through and not marked as done yet. To sync each alone takes
// milliseconds, so many are done together: all outputs reach the disk, then the journals that call
// them finished, then they get their names.
#pragma once

#include <mutex>
#include <vector>

#include "tephra/data/corpus/journal.h"

namespace tephra {

// What becomes of an output when its file is done.
struct FinishedOutput {
  Path partial, final;
  int64_t bytes = 0;

  // Fault::data unless the file is there, with its bytes.
  void name() const;
};

struct FinishedFile {
  Journal journal;
  JournalEntry entry;
  std::vector<FinishedOutput> outputs;
};

// Any thread may add.
class FinishedFiles {
 public:
  // `most_bytes`: of input, which a kill or a power cut may cost.
  explicit FinishedFiles(int64_t most_bytes) : most_bytes_(most_bytes) {}
  // In the course of an exception: what is done stays done.
  ~FinishedFiles();
  FinishedFiles(const FinishedFiles&) = delete;
  FinishedFiles& operator=(const FinishedFiles&) = delete;

  void add(FinishedFile file);
  void commit();  // all; with their names on disk, too

 private:
  using List = std::vector<FinishedFile>;
  List taken_locked();
  static void mark(const List& files);

  int64_t most_bytes_;
  std::mutex mutex_;
  List files_;
  int64_t bytes_ = 0;        // of input
  std::vector<Path> named_;  // folders of which names may not be on disk yet
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// The answers of a run of hours, a line of JSON behind its hash each, on the disk as they come: a
// run that was killed goes on behind the last whole one. The first line says what the run was begun
// with. The file is gone when the results are written.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tephra/base/append_file.h"
#include "tephra/base/error.h"
#include "tephra/base/json.h"

namespace tephra {

// Which model lies in a folder, by its files: names, sizes and a hash of their content, of more
// than 8 MiB of 4 KiB at every MiB and of the end.
std::string mark_of_model(const Path& folder);

// Removes what writers of `file` that were killed left beside it (AtomicFile). For who has the
// journal: then nobody else writes it.
void remove_unnamed(const Path& file);

class AnswerJournal {
 public:
  // Takes up what a run with the same settings left at `path`. Fault::usage when the settings were
  // others, naming them, unless there are no answers or `overwrite` is true; when another process
  // writes it, or it is no journal. Fault::data when a line is damaged, unless `overwrite` is true.
  // `check_results` throws where results of a run that has ended are not to be replaced: it is
  // asked when there are no answers to go on with, while no other process may write.
  // The file is as it was until the first answer: a run that is refused before replaces nothing.
  AnswerJournal(const Path& path, const Json& settings, bool overwrite,
                const std::function<void()>& check_results = {});
  ~AnswerJournal();  // leaves no file without answers
  AnswerJournal(const AnswerJournal&) = delete;
  AnswerJournal& operator=(const AnswerJournal&) = delete;

  const std::vector<Json>& found() const { return found_; }  // answers of runs before
  // Lets go of each when it is taken. What `take` throws is told with the line, `where`, and what
  // to do about it; with `overwrite`, Fault::data begins anew: false, and those taken do not count.
  bool take_found(const std::function<void(const Json&, const std::string& where)>& take);
  // Written at once, and flushed to the disk, though not more often than every second. On a full
  // disk it waits in memory, with a warning.
  void add(const Json& answer);
  int64_t size() const { return size_; }
  int64_t unwritten();  // how many of them are still in memory alone; tries once more to write them
  const Path& path() const { return path_; }
  void remove();  // the results lie elsewhere now

 private:
  struct FileLock {
    explicit FileLock(const Path& path);
    ~FileLock();
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;
    int fd = -1;
  };
  struct Left {
    int64_t bytes = 0;  // of whole lines
    std::optional<Json> head;
    std::vector<Json> answers;
  };
  Left left_by_others();
  Left read() const;
  std::string where(size_t answer) const;  // "FILE:LINE"
  void begin_only_if(const std::function<void()>& allowed) const;
  void begin_with(Left left);
  bool may_begin_anew(const Error& error) const;  // it warns where it may
  void begin_to_write();                          // cuts what is not gone on with
  void flush_now_and_then();

  Path path_;
  FileLock lock_;
  bool overwrite_;
  Json head_;
  std::optional<AppendFile> file_;  // from the first new answer on
  bool file_holds_answers_ = true;  // of others, or damaged ones, too
  int64_t kept_bytes_ = 0;          // that it goes on behind, the head among them
  std::vector<Json> found_;
  int64_t size_ = 0;
  double next_flush_ = 0;
};

}  // namespace tephra

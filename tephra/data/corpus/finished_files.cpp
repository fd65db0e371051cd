// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/finished_files.h"

#include <set>
#include <utility>

#include "tephra/base/error.h"
#include "tephra/base/flush_disks.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

std::vector<Path> folders_of(std::span<const FinishedFile> files) {
  std::set<Path> folders;
  for (const FinishedFile& file : files) {
    folders.insert(file.journal.path().parent_path());
    for (const FinishedOutput& output : file.outputs) folders.insert(output.final.parent_path());
  }
  return {folders.begin(), folders.end()};
}

}  // namespace

void FinishedOutput::name() const {
  if (fs::exists(partial)) fs::rename(partial, final);
  require_data(fs::exists(final), "{}: was made and is gone; --overwrite begins anew",
               final.string());
  const auto size = static_cast<int64_t>(fs::file_size(final));
  require_data(size == bytes,
               "{}: expected the {} bytes that were written, got {}; --overwrite begins anew",
               final.string(), bytes, size);
}

FinishedFiles::~FinishedFiles() {
  try {
    commit();
  } catch (const std::exception&) {
    // The next run does these files again.
  }
}

void FinishedFiles::add(FinishedFile file) {
  List ready;
  {
    const std::lock_guard lock(mutex_);
    bytes_ += file.entry.offset;
    files_.push_back(std::move(file));
    if (bytes_ >= most_bytes_) ready = taken_locked();
  }
  mark(ready);
}

FinishedFiles::List FinishedFiles::taken_locked() {
  bytes_ = 0;
  for (Path& folder : folders_of(files_)) named_.push_back(std::move(folder));
  return std::exchange(files_, {});
}

// A journal must never tell of bytes, nor a name stand for a file, that a power cut can take.
void FinishedFiles::mark(const List& files) {
  if (files.empty()) return;
  const std::vector<Path> folders = folders_of(files);
  flush_disks(folders);
  for (const FinishedFile& file : files) file.journal.write_unflushed(file.entry);
  flush_disks(folders);
  for (const FinishedFile& file : files) {
    for (const FinishedOutput& output : file.outputs) output.name();
  }
}

void FinishedFiles::commit() {
  List ready;
  std::vector<Path> named;
  {
    const std::lock_guard lock(mutex_);
    ready = taken_locked();
    named = std::exchange(named_, {});
  }
  mark(ready);
  flush_disks(named);
}

}  // namespace tephra

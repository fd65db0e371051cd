// SPDX-License-Identifier: Apache-2.0
// The indexes that chats can be answered from: files named when the server starts, and documents
// that clients send. An index never changes; adding documents puts a new one in its place, while
// requests go on with the one that they have.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/retrieve/index.h"

namespace tephra {

// Names of indexes and memories appear in file names and URLs: 1 to 64 of A-Z a-z 0-9 . _ - that
// begin with a letter or a digit. Anything else is an ApiError about `param`.
void check_shelf_name(const std::string& name, const std::string& param);
bool is_shelf_name(std::string_view name);

struct IndexShelfOptions {
  std::vector<std::pair<std::string, Path>> files;  // name and file; clients cannot change these
  std::optional<Path> folder;                       // keeps what clients send; else it is forgotten
  int64_t most_bytes = int64_t{1} << 30;            // of all that clients sent, as indexes
};

struct ShelvedIndex {
  std::shared_ptr<const Index> index;
  bool uploaded = false;
};

struct SentDocument {
  std::string name, text;
};

class IndexShelf {
 public:
  // Opens the files and what the folder holds. Fault::usage or Fault::data names a bad one.
  explicit IndexShelf(IndexShelfOptions options);

  // ApiError 404 about `param` when there is none.
  ShelvedIndex find(const std::string& name, const std::string& param) const;
  std::map<std::string, ShelvedIndex> all() const;

  enum class IfThere { refuse, append, replace };
  // Makes an index of the documents, or adds them to the one of this name. ApiError when the name
  // is taken, the text is none, or the shelf is full; then all is as it was.
  std::shared_ptr<const Index> put(const std::string& name,
                                   const std::vector<SentDocument>& documents,
                                   const ChunkOptions& chunks, IfThere if_there);
  void remove(const std::string& name);

 private:
  Path file_of(const std::string& name) const { return *options_.folder / (name + ".index"); }
  void check_room(const std::string& name, int64_t bytes) const;

  IndexShelfOptions options_;
  std::mutex writing_;  // one change at a time, so that none is lost
  mutable std::mutex mutex_;
  std::map<std::string, ShelvedIndex> indexes_;
};

}  // namespace tephra

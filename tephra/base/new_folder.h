// SPDX-License-Identifier: Apache-2.0
// A folder that is written as one thing: it is there when it is whole.
#pragma once

#include <vector>

#include "tephra/base/files.h"

namespace tephra {

// Makes the folder (and its parents) if needed, as make_writable_folder does. Destroyed without
// keep(), all is as before: what came into an empty folder goes, and each folder that was made
// here. One that held something is left as it is.
class NewFolder {
 public:
  explicit NewFolder(const Path& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  bool was_empty() const { return was_empty_; }
  void keep() { kept_ = true; }

 private:
  void remove_made() const;

  Path path_;
  std::vector<Path> made_;  // the deepest first
  bool was_empty_ = false;
  bool kept_ = false;
};

}  // namespace tephra

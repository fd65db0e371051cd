// SPDX-License-Identifier: Apache-2.0
// A folder that is written as one thing: it is there when it is whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/files.h"

namespace tephra {

// Makes the folder (and its parents) if needed, as make_writable_folder does, and removes what
// killed processes left of safetensors in it. Destroyed without
// keep(), all is as before: what was written here into an empty folder goes, and each folder that
// was made here, unless somebody else has put something there meanwhile. One that held something
// is left as it is.
class NewFolder {
 public:
  explicit NewFolder(const Path& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  bool was_empty() const { return was_empty_; }
  void write(const std::string& name, std::string_view text);  // a file in it, atomically
  void wrote(const std::string& name) { files_.push_back(name); }
  void keep() { kept_ = true; }

 private:
  void remove_made() const;

  Path path_;
  std::vector<Path> made_;  // the deepest first
  std::vector<std::string> files_;
  bool was_empty_ = false;
  bool kept_ = false;
};

}  // namespace tephra

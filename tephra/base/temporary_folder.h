// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tephra/base/files.h"

namespace tephra {

// A folder of its own in the place for temporary files, TMPDIR/.tephra-temporary-PURPOSE-XXXXXX,
// gone with all that is in it at the end. It is locked, and a file in it, kTemporaryOwner, names
// the process that made it. What processes of this host that were killed have left goes when the
// next one of the same purpose is made; what is not surely theirs stays. Fault::usage when none can
// be made.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& purpose);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const Path& path() const { return path_; }

 private:
  void remove();

  Path path_;
  int lock_ = -1;
};

inline constexpr const char* kTemporaryOwner = ".tephra-temporary";

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// A run folder has one owner at a time. The lock belongs to the open file, so it goes with the
// process, however that ends: there are no stale locks.
#pragma once

#include <optional>
#include <string>

#include "tephra/base/files.h"

namespace tephra {

class RunLock {
 public:
  // Makes the folder if needed. Fault::usage naming the owner when another process has it.
  explicit RunLock(const Path& run_dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  const Path& run_dir() const { return run_dir_; }

 private:
  Path run_dir_;
  int fd_ = -1;
};

// "process P on H" while a process has the folder; asking does not disturb it.
std::optional<std::string> run_owner(const Path& run_dir);

}  // namespace tephra

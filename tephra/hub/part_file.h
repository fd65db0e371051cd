// SPDX-License-Identifier: Apache-2.0
// A file that is being pulled: grows at its end, survives the process, and gets its name when it is
// found right.
#pragma once

#include <functional>
#include <span>

#include "tephra/base/files.h"
#include "tephra/hub/repository.h"

namespace tephra {

class PartFile {
 public:
  explicit PartFile(const Path& path);  // what an earlier pull left is kept
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  int64_t size() const { return size_; }
  const Path& path() const { return path_; }
  void append(std::span<const std::byte> bytes);  // Fault::data when the disk is full
  void restart();
  void publish(const Path& name);  // flushed, then renamed

 private:
  Path path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// The hash of a file's content, in hexadecimal; empty when `stop` said so.
std::string hub_hash_of(const Path& file, ShaKind kind, const std::function<bool()>& stop);

// One pull at a time works on a folder: Fault::usage when another one does.
class PullLock {
 public:
  explicit PullLock(const Path& file);
  ~PullLock();
  PullLock(const PullLock&) = delete;
  PullLock& operator=(const PullLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace tephra

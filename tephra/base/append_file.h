// SPDX-License-Identifier: Apache-2.0
// A file that grows by whole records. Of a log, a record that cannot be written now (a full disk)
// is kept and written before the next one, so that it has no holes and a run need not stop for it.
#pragma once

#include <string>
#include <string_view>

#include "tephra/base/files.h"

namespace tephra {

class AppendFile {
 public:
  enum class WhenFull { keep, fail };

  // Opens or makes the file, keeping its first `keep_bytes`.
  AppendFile(const Path& path, int64_t keep_bytes, WhenFull when_full = WhenFull::keep);
  ~AppendFile();  // tries once more to write what is kept
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Of what cannot be written it warns, once for each shortage, or it is Fault::data.
  void append(std::string_view record);
  void flush();  // to the disk; Fault::data when that fails
  // After the last record. Fault::data when something was not written, which network file systems
  // may say only now.
  void close();

  const Path& path() const { return path_; }

 private:
  int try_to_write();                               // what is kept: 0, or the error
  int try_to_write(std::string_view& bytes) const;  // leaves what was not written

  Path path_;
  int fd_ = -1;
  WhenFull when_full_;
  std::string pending_;
  bool warned_ = false;
};

}  // namespace tephra

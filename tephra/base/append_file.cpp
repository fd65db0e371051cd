// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tephra/base/error.h"
#include "tephra/base/log.h"

namespace tephra {

AppendFile::AppendFile(const Path& path, int64_t keep_bytes, WhenFull when_full)
    : path_(path), when_full_(when_full) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    throw Error(Fault::usage,
                format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  }
  if (::ftruncate(fd_, keep_bytes) != 0) {
    const int error = errno;
    ::close(fd_);
    throw Error(Fault::data, format("{}: cannot be cut to {} bytes: {}", path.string(), keep_bytes,
                                    std::strerror(error)));
  }
}

AppendFile::~AppendFile() {
  if (fd_ < 0) return;
  if (const int error = try_to_write(); error != 0) {
    log_line(LogLevel::error, format("{}: the last {} bytes were not written: {}", path_.string(),
                                     pending_.size(), std::strerror(error)));
  }
  ::close(fd_);
}

int AppendFile::try_to_write(std::string_view& bytes) const {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return 0;
}

int AppendFile::try_to_write() {
  std::string_view left = pending_;
  const int error = try_to_write(left);
  pending_.erase(0, pending_.size() - left.size());
  return error;
}

void AppendFile::append(std::string_view record) {
  int error = try_to_write();
  if (error == 0) error = try_to_write(record);
  if (error != 0 && when_full_ == WhenFull::fail) {
    throw Error(Fault::data,
                format("{}: cannot be written: {}", path_.string(), std::strerror(error)));
  }
  pending_ += record;  // what could not be written
  if (error == 0) {
    if (warned_) log_info("{}: can be written again, nothing was lost", path_.string());
    warned_ = false;
  } else if (!warned_) {
    warned_ = true;
    log_warning("{}: cannot be written: {}; what is missing is kept in memory and written later",
                path_.string(), std::strerror(error));
  }
}

void AppendFile::flush() {
  int error = try_to_write();
  if (error == 0 && ::fsync(fd_) != 0 && errno != EINVAL) error = errno;
  if (error != 0) {
    throw Error(Fault::data,
                format("{}: flushing to disk failed: {}", path_.string(), std::strerror(error)));
  }
}

void AppendFile::close() {
  int error = try_to_write();
  if (::close(std::exchange(fd_, -1)) != 0 && error == 0 && errno != EINTR) error = errno;
  if (error == 0) return;
  throw Error(Fault::data,
              format("{}: cannot be written: {}", path_.string(), std::strerror(error)));
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/run_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/host_name.h"
#include "tephra/base/text.h"

namespace tephra {

constexpr const char* kLockName = "lock";

namespace {

// An open file description lock: of the whole file, and gone with the last descriptor of it.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

std::string owner_in(const Path& path) {
  const std::string owner = clipped(trim(read_file(path)), 200);
  return owner.empty() ? "another process" : owner;
}

}  // namespace

RunLock::RunLock(const Path& run_dir) : run_dir_(run_dir) {
  make_writable_folder(run_dir);
  const Path path = run_dir / kLockName;
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    throw Error(Fault::usage,
                format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  }
  struct flock lock = whole_file();
  if (::fcntl(fd_, F_OFD_SETLK, &lock) != 0) {
    const int error = errno;
    ::close(fd_);
    if (error != EAGAIN && error != EACCES) {
      throw Error(Fault::usage,
                  format("{}: cannot be locked: {}", path.string(), std::strerror(error)));
    }
    throw Error(Fault::usage,
                format("{}: the run folder is in use by {}", run_dir.string(), owner_in(path)),
                "wait until it ends, stop it, or give another folder");
  }
  // For the message above only; the lock holds without it.
  const std::string owner = format("process {} on {}\n", ::getpid(), host_name());
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, owner.data(), owner.size(), 0) < 0) return;
}

RunLock::~RunLock() { ::close(fd_); }

std::optional<std::string> run_owner(const Path& run_dir) {
  const Path path = run_dir / kLockName;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  struct flock lock = whole_file();
  const bool known = ::fcntl(fd, F_OFD_GETLK, &lock) == 0;
  ::close(fd);
  if (!known || lock.l_type == F_UNLCK) return std::nullopt;
  return owner_in(path);
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown-host";
}

RunLock::RunLock(const Path& run_dir) : run_dir_(run_dir) {
  make_writable_folder(run_dir);
  const Path path = run_dir / "lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    throw Error(Fault::usage,
                format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  }
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    ::close(fd_);
    if (error != EWOULDBLOCK) {
      throw Error(Fault::usage,
                  format("{}: cannot be locked: {}", path.string(), std::strerror(error)));
    }
    const std::string owner = clipped(trim(read_file(path)), 200);
    throw Error(Fault::usage,
                format("{}: the run folder is in use by {}", run_dir.string(),
                       owner.empty() ? "another process" : owner),
                "wait until it ends, stop it, or give another folder");
  }
  // For the message above only; the lock holds without it.
  const std::string owner = format("process {} on {}\n", ::getpid(), host_name());
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, owner.data(), owner.size(), 0) < 0) return;
}

RunLock::~RunLock() { ::close(fd_); }

}  // namespace tephra

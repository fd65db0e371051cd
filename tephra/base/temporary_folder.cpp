// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/temporary_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/host_name.h"

namespace tephra {
namespace {

constexpr std::string_view kRandomPart = "XXXXXX";
constexpr std::string_view kOwnerBegin = "process ";

// Those that std::filesystem::temp_directory_path looks at; it does not name what it refuses.
Path place_for_temporary_files() {
  for (const char* variable : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
    const char* place = std::getenv(variable);
    if (place != nullptr && *place != '\0') return place;
  }
  return "/tmp";
}

// The folder, open and locked; -1 when it is gone, no folder, or somebody else's.
int locked_folder(const Path& path, int operation) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  while (::flock(fd, operation) != 0) {
    if (errno == EINTR) continue;
    ::close(fd);
    return -1;
  }
  return fd;
}

bool is_ours(int fd) {
  struct stat found;
  return ::fstat(fd, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::geteuid();
}

std::string end_of_owner() { return " on " + host_name() + "\n"; }

// 0, or the error. What was written before it is no whole line, which names nobody.
int write_owner(const Path& folder) {
  const Path path = folder / kTemporaryOwner;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  const std::string owner = std::string(kOwnerBegin) + std::to_string(::getpid()) + end_of_owner();
  const ssize_t written = ::write(fd, owner.data(), owner.size());
  int error = 0;
  if (written != static_cast<ssize_t>(owner.size())) error = written < 0 ? errno : ENOSPC;
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

std::string read_owner(int folder) {
  const int fd = ::openat(folder, kTemporaryOwner, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return {};
  char bytes[512];
  const ssize_t size = ::read(fd, bytes, sizeof bytes);
  ::close(fd);
  return {bytes, static_cast<size_t>(size > 0 ? size : 0)};
}

// Of this host, and surely gone: a process of that number that lives may be another one by now.
bool owner_is_gone(std::string_view owner) {
  if (!owner.starts_with(kOwnerBegin)) return false;
  owner.remove_prefix(kOwnerBegin.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(owner.data(), owner.data() + owner.size(), process);
  if (error != std::errc() || process <= 0) return false;
  owner.remove_prefix(static_cast<size_t>(end - owner.data()));
  return owner == end_of_owner() && ::kill(process, 0) != 0 && errno == ESRCH;
}

// The owner goes last: what is left by a process that is killed meanwhile still has one, or is
// empty.
void remove_folder(const Path& path) {
  std::error_code error, ignored;
  std::vector<Path> others;
  for (std::filesystem::directory_iterator item(path, error), end; !error && item != end;
       item.increment(error)) {
    if (item->path().filename() != kTemporaryOwner) others.push_back(item->path());
  }
  for (const Path& other : others) std::filesystem::remove_all(other, ignored);
  std::filesystem::remove_all(path, ignored);
}

// The owner is read under the lock: a folder that somebody else has just removed has none any more,
// and neither has one whose maker has not locked it yet. An empty one may go from under its maker,
// who makes another.
void remove_abandoned(const Path& place, const std::string& prefix) {
  std::error_code error;
  for (std::filesystem::directory_iterator item(place, error), end; !error && item != end;
       item.increment(error)) {
    const std::string name = item->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + kRandomPart.size()) continue;
    const int fd = locked_folder(item->path(), LOCK_EX | LOCK_NB);
    if (fd < 0) continue;
    if (is_ours(fd)) {
      const std::string owner = read_owner(fd);
      if (owner_is_gone(owner)) remove_folder(item->path());
      if (owner.empty()) ::rmdir(item->path().c_str());  // refuses one that is not empty
    }
    ::close(fd);
  }
}

[[noreturn]] void refuse(const Path& place, int error) {
  const Fault fault = is_shortage(error) ? Fault::data : Fault::usage;
  throw Error(fault, format("{}: cannot hold temporary files: {}; set TMPDIR to another",
                            place.string(), std::strerror(error)));
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& purpose) {
  const Path place = place_for_temporary_files();
  const std::string prefix = ".tephra-temporary-" + purpose + "-";
  remove_abandoned(place, prefix);
  for (;;) {
    std::string name = (place / prefix).string() + std::string(kRandomPart);
    if (::mkdtemp(name.data()) == nullptr) refuse(place, errno);
    // Locked before it is marked: what is marked and not locked has lost its process. Where the
    // disk has no locks, nobody else can take it either.
    lock_ = locked_folder(name, LOCK_EX);
    path_ = name;
    const int error = write_owner(path_);
    if (error == 0) return;
    remove();
    if (error != ENOENT) refuse(place, error);  // else somebody took it for abandoned
  }
}

TemporaryFolder::~TemporaryFolder() { remove(); }

void TemporaryFolder::remove() {
  remove_folder(path_);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace tephra

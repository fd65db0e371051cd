// SPDX-License-Identifier: Apache-2.0
#include "tephra/hub/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tephra/base/error.h"

namespace tephra {
namespace {

[[noreturn]] void fail_part(const Path& path, const char* what, int error, Fault fault) {
  throw Error(fault, format("{}: {}: {}", path.string(), what, std::strerror(error)));
}

}  // namespace

PartFile::PartFile(const Path& path)
    : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ < 0) fail_part(path_, "cannot be opened for writing", errno, Fault::usage);
  const off_t end = ::lseek(fd_, 0, SEEK_END);
  if (end < 0) fail_part(path_, "cannot be read", errno, Fault::data);
  size_ = end;
}

PartFile::~PartFile() { ::close(fd_); }

void PartFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), size_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_part(path_, "cannot be written", errno, Fault::data);
    size_ += written;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void PartFile::restart() {
  if (::ftruncate(fd_, 0) != 0) fail_part(path_, "cannot be written", errno, Fault::data);
  size_ = 0;
}

void PartFile::publish(const Path& name) {
  if (::fsync(fd_) != 0) fail_part(path_, "cannot be flushed", errno, Fault::data);
  if (::rename(path_.c_str(), name.c_str()) != 0) {
    fail_part(name, "cannot be given its name", errno, Fault::usage);
  }
  flush_folder(name.parent_path());
}

std::string hub_hash_of(const Path& path, ShaKind kind, const std::function<bool()>& stop) {
  const FileReader file(path);
  Sha sha(kind);
  if (kind == ShaKind::sha1) sha.add(format("blob {}", file.size()) + '\0');
  std::vector<std::byte> bytes(size_t{1} << 20);
  for (int64_t at = 0; at < file.size();) {
    if (stop && stop()) return {};
    const auto count = std::min(file.size() - at, static_cast<int64_t>(bytes.size()));
    const std::span part(bytes.data(), static_cast<size_t>(count));
    file.read(at, part);
    sha.add(part);
    at += count;
  }
  return hex_text(sha.finish());
}

PullLock::PullLock(const Path& file)
    : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ < 0) fail_part(file, "cannot be opened for writing", errno, Fault::usage);
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(fd_);
  throw Error(Fault::usage,
              format("{}: another pull works on this folder", file.parent_path().string()),
              "wait for it, or choose another folder with --out");
}

PullLock::~PullLock() { ::close(fd_); }

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/cold_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr int64_t kPiece = 8 << 20;  // bytes of one read

constexpr int64_t kAligned = 4096;  // what reads past the page cache ask for

class OpenFile {
 public:
  explicit OpenFile(const Path& path, int flags = 0)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)) {
    if (fd_ < 0 && flags != 0) fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    require(fd_ >= 0, "{}: cannot be read", path.string());
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

void forget_cached(std::span<const Path> files) {
  for (const Path& path : files) {
    const OpenFile file(path);
    ::fdatasync(file.fd());  // what is still to be written is not forgotten
    ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

double read_speed(std::span<const Path> files) {
  double bytes = 0;
  const double start = steady_seconds();
  for (const Path& path : files) {
    const OpenFile file(path, O_DIRECT);
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
    parallel_for(size, kPiece, [&](int64_t begin, int64_t end) {
      thread_local std::vector<char> memory(kPiece + kAligned);
      char* buffer =
          memory.data() + kAligned - reinterpret_cast<uintptr_t>(memory.data()) % kAligned;
      while (begin < end) {
        const auto wanted = std::min(kPiece, ceil_div(end - begin, kAligned) * kAligned);
        const ssize_t got = ::pread(file.fd(), buffer, static_cast<size_t>(wanted), begin);
        require_data(got > 0, "{}: reading failed at byte {}", path.string(), begin);
        begin += got;
      }
    });
    bytes += static_cast<double>(size);
  }
  return bytes / (steady_seconds() - start);
}

int64_t disk_bytes_read() {
  const Path path = "/proc/self/io";
  if (!std::filesystem::exists(path)) return 0;
  const std::string text = read_file(path);
  for (const std::string_view line : split(text, '\n')) {
    constexpr std::string_view kKey = "read_bytes: ";
    if (line.starts_with(kKey)) return std::stoll(std::string(line.substr(kKey.size())));
  }
  return 0;
}

}  // namespace tephra

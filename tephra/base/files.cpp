// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tephra/base/error.h"
#include "tephra/base/temporary_name.h"

namespace tephra {
namespace {

std::string reason(int error) { return std::strerror(error); }

// Calls again when a signal interrupted it.
template <class Call>
auto retried(Call call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

bool is_shortage(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

[[noreturn]] void cannot_open(const Path& path, int error) {
  if (error == ENOENT) throw Error(Fault::usage, format("{}: does not exist", path.string()));
  const Fault fault = error == EIO ? Fault::data : Fault::usage;
  throw Error(fault, format("{}: cannot be opened: {}", path.string(), reason(error)));
}

int open_to_read(const Path& path, struct stat& info) {
  const int fd = retried([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (fd < 0) cannot_open(path, errno);
  if (::fstat(fd, &info) != 0 || S_ISDIR(info.st_mode)) {
    const int error = S_ISDIR(info.st_mode) ? EISDIR : errno;
    ::close(fd);
    if (error != EISDIR) cannot_open(path, error);
    throw Error(Fault::usage, format("{}: is a folder, expected a file", path.string()));
  }
  return fd;
}

// All of `to`.
void read_at(int fd, const Path& path, int64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = retried([&] { return ::pread(fd, to.data(), to.size(), offset); });
    if (got < 0) {
      throw Error(Fault::data, format("{}: reading {} bytes at byte {} failed: {}", path.string(),
                                      to.size(), offset, reason(errno)));
    }
    require_data(got > 0, "{}: is cut short: expected {} more bytes at byte {}", path.string(),
                 to.size(), offset);
    offset += got;
    to = to.subspan(static_cast<size_t>(got));
  }
}

Path folder_of(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

// Makes a rename in this folder survive a power cut. File systems that cannot do it say EINVAL.
int sync_folder(const Path& folder) {
  const Descriptor fd(
      retried([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (fd.get() < 0) return errno;
  if (retried([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL) return errno;
  return 0;
}

}  // namespace

std::string read_file(const Path& path, int64_t max_bytes) {
  struct stat info {};
  const Descriptor fd(open_to_read(path, info));
  std::string text;
  text.resize(static_cast<size_t>(std::clamp<int64_t>(info.st_size, 0, max_bytes)) + 1);
  size_t size = 0;
  for (;;) {  // sizes of pipes and of /proc are not known beforehand
    const ssize_t got =
        retried([&] { return ::read(fd.get(), text.data() + size, text.size() - size); });
    if (got < 0) {
      throw Error(Fault::data, format("{}: reading failed: {}", path.string(), reason(errno)));
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
    require_data(size <= static_cast<size_t>(max_bytes),
                 "{}: expected a file of at most {} bytes, got more", path.string(), max_bytes);
    if (size == text.size()) text.resize(2 * size);
  }
  text.resize(size);
  return text;
}

// A file that another process shortens while it is mapped raises SIGBUS on access; no check at open
// can prevent that. Our own writers replace files by rename, which leaves a mapping intact.
std::shared_ptr<MappedFile> MappedFile::open(const Path& path) {
  struct stat info {};
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->fd_ = open_to_read(path, info);
  require(S_ISREG(info.st_mode), "{}: expected a regular file", path.string());
  if (info.st_size == 0) return file;  // nothing to map, and mmap refuses a length of 0
  const auto size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->fd_, 0);
  if (data == MAP_FAILED) {
    throw Error(Fault::data,
                format("{}: mapping {} bytes failed: {}", path.string(), size, reason(errno)));
  }
  file->data_ = static_cast<const std::byte*>(data);
  file->size_ = size;
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::read(int64_t offset, std::span<std::byte> to) const {
  read_at(fd_, path_, offset, to);
}

void MappedFile::prefer_large_pages() const {
#ifdef MADV_HUGEPAGE
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_HUGEPAGE);
#endif
}

void MappedFile::release(std::span<const std::byte> bytes) const {
  // Whole pages only: the ones at the edges may hold a neighbour that is still in use.
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = static_cast<size_t>(bytes.data() - data_);
  const size_t first = (begin + page - 1) / page * page;
  const size_t last = (begin + bytes.size()) / page * page;
  if (first < last) ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

AtomicFile::AtomicFile(const Path& path) : path_(path) {
  static std::atomic<int> counter{0};
  std::error_code ignored;
  require(path.has_filename() && !std::filesystem::is_directory(path, ignored),
          "{}: is a folder, expected the name of a file to write", path.string());
  temporary_ = folder_of(path) / temporary_name(path.filename().string(), counter.fetch_add(1));
  fd_ = retried(
      [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
  if (fd_ >= 0) return;
  const int error = errno;
  const Fault fault = is_shortage(error) || error == EIO ? Fault::data : Fault::usage;
  throw Error(fault, format("{}: cannot be written: {}", path.string(),
                            error == ENOENT
                                ? format("the folder '{}' does not exist", folder_of(path).string())
                                : reason(error)));
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (fd_ < 0) return;
  ::close(fd_);
  fd_ = -1;
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const std::string& what, int error) {
  discard();
  std::error_code ignored;
  const bool previous = std::filesystem::exists(path_, ignored);
  throw Error(Fault::data, format("{}: {} failed: {}; {}{}", path_.string(), what, reason(error),
                                  is_shortage(error) ? "free some space and run again; " : "",
                                  previous ? "the previous file of that name is unchanged"
                                           : "nothing was left under the final name"));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TEPHRA_ASSERT(fd_ >= 0, "an atomic file is written before it is committed");
  const size_t total = bytes.size();
  while (!bytes.empty()) {
    const ssize_t put = retried([&] { return ::write(fd_, bytes.data(), bytes.size()); });
    if (put < 0) fail(format("writing {} bytes", total), errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void AtomicFile::commit() {
  TEPHRA_ASSERT(fd_ >= 0, "an atomic file is committed once");
  if (retried([&] { return ::fsync(fd_); }) != 0) fail("flushing to disk", errno);
  // Network file systems report a failed write at close. It is not retried: the descriptor is gone.
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0 && errno != EINTR) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    fail("closing", error);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    fail("renaming the finished file", error);
  }
  if (const int error = sync_folder(folder_of(path_)); error != 0) {
    throw Error(Fault::data, format("{}: is written, but flushing its folder to disk failed: {}",
                                    path_.string(), reason(error)));
  }
}

void write_file(const Path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void flush_folder(const Path& folder) {
  if (const int error = sync_folder(folder); error != 0) {
    throw Error(Fault::data, format("{}: flushing the folder to disk failed: {}", folder.string(),
                                    reason(error)));
  }
}

FileReader::FileReader(const Path& path) : path_(path) {
  struct stat info {};
  fd_ = open_to_read(path, info);
  size_ = info.st_size;
}

FileReader::~FileReader() { ::close(fd_); }

void FileReader::read(int64_t offset, std::span<std::byte> to) const {
  read_at(fd_, path_, offset, to);
}

namespace {

// The path, or the nearest folder above it, that is a link to nothing; empty when there is none.
Path link_to_nothing(const Path& path) {
  std::error_code ignored;
  for (Path p = path; !p.empty() && !std::filesystem::exists(p, ignored); p = p.parent_path()) {
    if (std::filesystem::is_symlink(p, ignored)) return p;
  }
  return {};
}

std::string why_no_folder(const Path& path, const std::error_code& error) {
  std::error_code unknown;  // a name that is too long, a folder that may not be entered
  if (std::filesystem::exists(path, unknown)) return "a file has that name";
  if (const Path link = link_to_nothing(path); !link.empty()) {
    return format("the link '{}' points to nothing", link.string());
  }
  return error ? error.message() : "another process removed it meanwhile";
}

}  // namespace

void make_writable_folder(const Path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  std::error_code unknown;
  if (!std::filesystem::is_directory(path, unknown)) {
    throw Error(
        is_shortage(error.value()) ? Fault::data : Fault::usage,
        format("{}: cannot be made a folder: {}", path.string(), why_no_folder(path, error)));
  }
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    throw Error(Fault::usage, format("{}: cannot be written to: {}", path.string(), reason(errno)));
  }
}

void require_folder(const Path& path, std::string_view what) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  require(std::filesystem::exists(status), "{}: does not exist; expected {}", path.string(), what);
  require(std::filesystem::is_directory(status), "{}: is not a folder; expected {}", path.string(),
          what);
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/large_pages.h"
#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
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

// Memory from a multiple of 2 MiB on: as much is taken to spare, and given back.
void* map_memory(size_t size, int protection, int flags) {
  constexpr auto kAlign = static_cast<size_t>(kLargePage);
  void* room =
      ::mmap(nullptr, size + kAlign, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (room == MAP_FAILED) return room;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(room);
  const uintptr_t at = (begin + kAlign - 1) / kAlign * kAlign;
  const uintptr_t end = (at + size + page - 1) / page * page;
  const uintptr_t room_end = (begin + size + kAlign + page - 1) / page * page;
  if (at > begin) ::munmap(room, at - begin);
  if (room_end > end) ::munmap(reinterpret_cast<void*>(end), room_end - end);
  return reinterpret_cast<void*>(at);
}

// Maps a file at a multiple of 2 MiB. Some file systems would see to it by themselves.
void* map_file(int fd, size_t size) {
  void* room = map_memory(size, PROT_NONE, MAP_NORESERVE);
  if (room == MAP_FAILED) return room;
  void* data = ::mmap(room, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::munmap(room, size);
    errno = error;
  }
  return data;
}

void ask_for_large_pages(void* data, size_t size) {
#ifdef MADV_HUGEPAGE
  ::madvise(data, size, MADV_HUGEPAGE);
#endif
}

// Memory of large pages that is filled before it takes its place in a mapping.
class Staging {
 public:
  explicit Staging(size_t size) : size_(size) {
    void* data = map_memory(size, PROT_READ | PROT_WRITE, 0);
    if (data == MAP_FAILED) return;
    data_ = static_cast<std::byte*>(data);
    ask_for_large_pages(data_, size);
  }
  ~Staging() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  std::byte* data() const { return data_; }  // none where the system had no memory

  bool move_to(std::byte* at) {
    // Read-only pages are not counted against limits on data.
    if (::mprotect(data_, size_, PROT_READ) != 0) return false;
    if (::mremap(data_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) {
      return false;
    }
    data_ = nullptr;
    return true;
  }

 private:
  size_t size_;
  std::byte* data_ = nullptr;
};

// A system lets a process have some 65,000 mappings, of all its files together; a piece that is
// copied makes two.
constexpr int64_t kMaxPieces = 8192;
std::atomic<int64_t> all_pieces{0}, all_copied{0};

// Where the piece ends that begins with this block: before a gap, and soon enough that it is
// filled within a moment and that a limit on data lets it through.
size_t end_of_piece(const std::vector<int64_t>& blocks, size_t begin) {
  constexpr size_t kMaxBlocks = 16;
  size_t end = begin + 1;
  while (end < blocks.size() && end - begin < kMaxBlocks && blocks[end] == blocks[end - 1] + 1) {
    ++end;
  }
  return end;
}

}  // namespace

bool is_shortage(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

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
  void* data = map_file(file->fd_, size);
  if (data == MAP_FAILED) {
    throw Error(Fault::data,
                format("{}: mapping {} bytes failed: {}", path.string(), size, reason(errno)));
  }
  file->data_ = static_cast<const std::byte*>(data);
  file->size_ = size;
  return file;
}

MappedFile::~MappedFile() {
  all_pieces -= pieces_;
  all_copied -= std::count(copied_.begin(), copied_.end(), true) * kLargePage;
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::read(int64_t offset, std::span<std::byte> to) const {
  read_at(fd_, path_, offset, to);
}

void MappedFile::prefer_large_pages() const {
  if (data_ != nullptr) ask_for_large_pages(const_cast<std::byte*>(data_), size_);
}

std::vector<int64_t> MappedFile::small_blocks() const {
  struct statfs system {};
  // What lies in memory already would take it twice.
  if (::fstatfs(fd_, &system) != 0 || system.f_type == TMPFS_MAGIC) return {};
  std::vector<int64_t> blocks = cached_in_small_pages(fd_, bytes());
  std::erase_if(blocks, [&](int64_t block) { return is_copied(block); });
  return blocks;
}

bool MappedFile::copy_blocks(const std::vector<int64_t>& blocks,
                             FunctionRef<void(int64_t)> copied) {
  for (size_t begin = 0; begin < blocks.size();) {
    const size_t end = end_of_piece(blocks, begin);
    const auto count = static_cast<int64_t>(end - begin);
    if (!copy_piece(blocks[begin], count)) return false;
    copied(count * kLargePage);
    begin = end;
  }
  return true;
}

bool MappedFile::copy_piece(int64_t first, int64_t count) {
  if (all_pieces >= kMaxPieces) return false;
  constexpr auto kBlock = static_cast<size_t>(kLargePage);
  Staging staging(static_cast<size_t>(count) * kBlock);
  if (staging.data() == nullptr) return false;
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      stop_if_interrupted();
      read((first + i) * kLargePage, {staging.data() + i * kLargePage, kBlock});
    }
  });
  copied_.resize(size_ / kBlock);
  std::byte* at = const_cast<std::byte*>(data_) + first * kLargePage;
  if (!staging.move_to(at)) {
    map_again(first * kLargePage, static_cast<size_t>(count) * kBlock);
    return false;
  }
  std::fill_n(copied_.begin() + first, count, true);
  ++pieces_;
  ++all_pieces;
  all_copied += count * kLargePage;
  return true;
}

// A move that failed may have taken away what lay there.
void MappedFile::map_again(int64_t offset, size_t size) {
  std::byte* at = const_cast<std::byte*>(data_) + offset;
  if (::msync(at, size, MS_ASYNC) == 0) return;  // fails where a part is not mapped
  if (::mmap(at, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd_, offset) == MAP_FAILED) {
    throw Error(Fault::device, format("{}: mapping {} bytes at byte {} again failed: {}",
                                      path_.string(), size, offset, reason(errno)));
  }
  ask_for_large_pages(at, size);
}

bool MappedFile::is_copied(int64_t block) const {
  return block < std::ssize(copied_) && copied_[static_cast<size_t>(block)];
}

int64_t copied_file_bytes() { return all_copied; }

void MappedFile::release(std::span<const std::byte> bytes) const {
  // Whole pages only: the ones at the edges may hold a neighbour that is still in use.
  const auto page = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  const int64_t begin = bytes.data() - data_;
  const int64_t last = (begin + std::ssize(bytes)) / page * page;
  for (int64_t at = (begin + page - 1) / page * page; at < last;) {
    const int64_t block = at / kLargePage;
    const int64_t end = std::min(last, (block + 1) * kLargePage);
    // Pages of our own do not come again from the file.
    if (!is_copied(block)) {
      ::madvise(const_cast<std::byte*>(data_) + at, static_cast<size_t>(end - at), MADV_DONTNEED);
    }
    at = end;
  }
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

// SPDX-License-Identifier: Apache-2.0
// Files that cannot be lost halfway. A path that does not exist or cannot be written is
// Fault::usage; a failed read or write (a full disk) is Fault::data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/function_ref.h"

namespace tephra {

using Path = std::filesystem::path;

// Whether this error says that a disk, or what one may have of it, is full.
bool is_shortage(int error);

std::string read_file(const Path& path, int64_t max_bytes = int64_t{1} << 30);

// A read-only mapping of a whole file, at an address that large pages can begin at.
class MappedFile {
 public:
  static std::shared_ptr<MappedFile> open(const Path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const Path& path() const { return path_; }

  // The same bytes, read into memory of the caller's: all of `to`. Any thread may read.
  void read(int64_t offset, std::span<std::byte> to) const;

  // For a file of which most is read, again and again: where the system has large pages of files,
  // it reads and maps this one by them.
  void prefer_large_pages() const;

  // The blocks of 2 MiB, counted from 0, that the system's cache holds in small pages and that a
  // copy would make faster to read; none where the system does not tell, or of files in memory.
  std::vector<int64_t> small_blocks() const;
  // Copies these, in order, into large pages of our own, which take their place in the mapping.
  // False when the system gives no more memory or mappings: what was copied until then is kept, all
  // else stays mapped. Tells of the bytes as they come. No other thread may read the mapping
  // meanwhile.
  bool copy_blocks(const std::vector<int64_t>& blocks, FunctionRef<void(int64_t)> copied);

  // Lets go of the memory that holds these bytes, but for copies; reading them again reads the file
  // again.
  void release(std::span<const std::byte> bytes) const;

 private:
  MappedFile() = default;
  bool copy_piece(int64_t first, int64_t count);
  void map_again(int64_t offset, size_t size);
  bool is_copied(int64_t block) const;

  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::vector<bool> copied_;  // of each block, whether it lies in pages of our own
  int64_t pieces_ = 0;        // in which they were copied
  Path path_;
  int fd_ = -1;
};

// Of all files that are mapped now, what lies in copies of our own.
int64_t copied_file_bytes();

// A file that appears under its name only when it is whole: written beside it, flushed to disk,
// then renamed. Destroyed without commit() it leaves nothing.
class AtomicFile {
 public:
  explicit AtomicFile(const Path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void commit();

 private:
  void discard();
  [[noreturn]] void fail(const std::string& what, int error);

  Path path_;
  Path temporary_;
  int fd_ = -1;
};

void write_file(const Path& path, std::string_view text);  // atomically

// Makes renames and new names in this folder survive a power cut. Fault::data when that fails.
void flush_folder(const Path& folder);

// A file read at chosen places. A failed read is an error here, where a mapped file would end the
// process. Any thread may read.
class FileReader {
 public:
  explicit FileReader(const Path& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  int64_t size() const { return size_; }
  const Path& path() const { return path_; }
  void read(int64_t offset, std::span<std::byte> to) const;  // all of it

 private:
  Path path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// Makes the folder (and its parents) if needed; Fault::usage with the reason when it cannot be
// written to.
void make_writable_folder(const Path& path);

// Fault::usage unless it exists and is a folder; `what` says what belongs there: "a model folder".
void require_folder(const Path& path, std::string_view what);

}  // namespace tephra

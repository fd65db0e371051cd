// SPDX-License-Identifier: Apache-2.0
// A checkpoint is written into step-N.tmp-PID, flushed, and renamed; one that goes is first renamed
// to step-N.gone-PID. So whatever is called step-N is whole, whenever the process dies.
#include "tephra/train/checkpoint_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/io/safetensors.h"
#include "tephra/train/checkpoint.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kGone = ".gone-";
constexpr int64_t kSpareBytes = int64_t{1} << 20;  // manifest and file system

Path marked(const Path& folder, std::string_view mark) {
  return folder.string() + format("{}{}", mark, ::getpid());
}

// A folder that is removed unless it is kept.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(Path path) : path_(std::move(path)) {
    fs::remove_all(path_);
    make_writable_folder(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

// Said before the disk is filled up for nothing. Other writers may still take the space.
void check_space(const Path& folder, std::span<const NamedTensor> tensors) {
  int64_t needed = kSpareBytes;
  for (const NamedTensor& tensor : tensors) needed += tensor.value.bytes();
  const auto free = static_cast<int64_t>(fs::space(folder).available);
  if (needed <= free) return;
  throw Error(Fault::data,
              format("{}: a checkpoint needs {}, the disk has {} left", folder.string(),
                     human_bytes(needed), human_bytes(free)),
              "free some space, or keep fewer checkpoints");
}

// The rows of a tensor in pieces of at most `max_bytes`, or of one row.
std::vector<RowPiece> cut(const Tensor& x, const std::string& file, int64_t offset,
                          int64_t max_bytes) {
  std::vector<RowPiece> pieces;
  const int64_t row_bytes = x.cols() * size_of(x.dtype());
  const int64_t rows = std::max<int64_t>(1, max_bytes / std::max<int64_t>(1, row_bytes));
  const auto* data = static_cast<const std::byte*>(x.raw());
  for (int64_t row = 0; row < x.rows(); row += rows) {
    const int64_t last = std::min(x.rows(), row + rows);
    const std::span bytes(data + row * row_bytes, static_cast<size_t>((last - row) * row_bytes));
    pieces.push_back({row, last, file, offset + row * row_bytes, xxh3(bytes)});
  }
  return pieces;
}

ManifestFile describe_file(const Path& path, int64_t data_bytes) {
  const FileReader file(path);
  const int64_t header_bytes = file.size() - data_bytes;
  std::vector<std::byte> header(static_cast<size_t>(header_bytes));
  file.read(0, header);
  return {path.filename().string(), file.size(), header_bytes, xxh3(header)};
}

// One safetensors file with these tensors, added to the manifest.
void write_tensors(const Path& path, std::span<const NamedTensor> tensors, int64_t max_piece_bytes,
                   Manifest& manifest) {
  std::vector<std::pair<std::string, Tensor>> list;
  int64_t data_bytes = 0;
  for (const auto& [name, value] : tensors) {
    list.emplace_back(name, value);
    data_bytes += value.bytes();
  }
  write_safetensors(path, list);
  manifest.files.push_back(describe_file(path, data_bytes));
  const ManifestFile& file = manifest.files.back();
  int64_t offset = file.header_bytes;
  for (const auto& [name, value] : tensors) {
    manifest.tensors.push_back(
        {name, value.dtype(), value.shape(), cut(value, file.name, offset, max_piece_bytes)});
    offset += value.bytes();
  }
}

void write_all(const Path& folder, std::span<const NamedTensor> tensors,
               const CheckpointOptions& options, Manifest& manifest) {
  size_t begin = 0;
  while (begin < tensors.size()) {
    int64_t bytes = tensors[begin].value.bytes();
    size_t end = begin + 1;
    while (end < tensors.size() && bytes + tensors[end].value.bytes() <= options.max_file_bytes) {
      bytes += tensors[end++].value.bytes();
    }
    const std::string name = format("tensors-{:05}.safetensors", manifest.files.size() + 1);
    write_tensors(folder / name, tensors.subspan(begin, end - begin), options.max_piece_bytes,
                  manifest);
    begin = end;
  }
}

void rename_folder(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  throw Error(Fault::data, format("{}: renaming it to {} failed: {}", from.string(),
                                  to.filename().string(), std::strerror(errno)));
}

// Removes a folder that nobody takes for a checkpoint at any moment.
void remove_folder(const Path& folder) {
  const Path gone = marked(folder, kGone);
  rename_folder(folder, gone);
  fs::remove_all(gone);
}

// Gives the finished folder its name. What had that name takes the temporary one.
void publish(const Path& temporary, const Path& name) {
  if (fs::exists(name)) {
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE) == 0) {
      return;
    }
    remove_folder(name);  // a file system that cannot exchange
  }
  rename_folder(temporary, name);
}

}  // namespace

int64_t write_checkpoint(const Path& folder, int64_t step, std::span<const NamedTensor> tensors,
                         const Json& state, const CheckpointOptions& options) try {
  make_writable_folder(folder);
  check_space(folder, tensors);
  const Path name = folder / format("step-{}", step);
  const TemporaryFolder temporary(marked(name, kTemporary));
  Manifest manifest{step, state, {}, {}};
  write_all(temporary.path(), tensors, options, manifest);
  if (options.before_commit) options.before_commit();
  const std::string text = manifest_text(manifest);
  write_file(temporary.path() / kManifestName, text);
  publish(temporary.path(), name);
  flush_folder(folder);
  auto bytes = static_cast<int64_t>(text.size());
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  return bytes;
} catch (const fs::filesystem_error& error) {
  throw Error(Fault::data, format("{}: {}", folder.string(), error.what()));
}

void remove_old_checkpoints(const Path& folder, const KeepPolicy& keep, int64_t newest_step) {
  const std::vector<CheckpointInfo> all = list_checkpoints(folder.parent_path());
  const int64_t surplus = static_cast<int64_t>(all.size()) - keep.last_n;
  for (int64_t i = 0; i < surplus; ++i) {
    const CheckpointInfo& info = all[static_cast<size_t>(i)];
    const bool stays = keep.every_m > 0 && info.step % keep.every_m == 0;
    if (stays || info.step == newest_step) continue;
    try {
      remove_folder(info.folder);
    } catch (const std::exception& error) {
      log_warning("{}: could not be removed: {}", info.folder.string(), error.what());
    }
  }
}

void remove_leftovers(const Path& folder) {
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (!name.starts_with("step-")) continue;
    if (name.find(kTemporary) != std::string::npos || name.find(kGone) != std::string::npos) {
      std::error_code error;
      fs::remove_all(item.path(), error);
      log_info("{}: left by a process that was killed; {}", item.path().string(),
               error ? "could not be removed: " + error.message() : "removed");
    }
  }
}

}  // namespace tephra

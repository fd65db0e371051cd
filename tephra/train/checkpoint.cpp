// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/checkpoint.h"

#include <algorithm>
#include <mutex>

#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;

// Of bytes that are read only to be hashed.
uint64_t hash_of(const FileReader& file, int64_t offset, int64_t bytes) {
  thread_local std::vector<std::byte> buffer(kReadBytes);
  Xxh3 hash;
  while (bytes > 0) {
    const size_t part = std::min<size_t>(buffer.size(), static_cast<size_t>(bytes));
    const std::span to(buffer.data(), part);
    file.read(offset, to);
    hash.add(to);
    offset += static_cast<int64_t>(part);
    bytes -= static_cast<int64_t>(part);
  }
  return hash.value();
}

std::byte* row_of(const Tensor& x, int64_t row) {
  return static_cast<std::byte*>(x.raw()) + row * x.row_stride() * size_of(x.dtype());
}

}  // namespace

Checkpoint Checkpoint::open(const Path& folder) {
  require_folder(folder, "a training checkpoint");
  const Path path = folder / kManifestName;
  require(fs::exists(path), "{}: is no checkpoint: there is no {}", folder.string(), kManifestName);
  Checkpoint result;
  result.folder_ = folder;
  result.manifest_ = parse_manifest(read_file(path), path.string());
  for (const ManifestFile& file : result.manifest_.files) {
    const Path at = folder / file.name;
    require_data(fs::exists(at), "{}: is missing; the manifest lists it with {} bytes", at.string(),
                 file.bytes);
    auto reader = std::make_unique<FileReader>(at);
    require_data(reader->size() == file.bytes, "{}: expected {} bytes, got {}", at.string(),
                 file.bytes, reader->size());
    result.readers_[file.name] = std::move(reader);
  }
  for (size_t i = 0; i < result.tensors().size(); ++i) {
    result.index_[result.tensors()[i].name] = i;
  }
  return result;
}

const ManifestTensor& Checkpoint::tensor(std::string_view name) const {
  if (const auto found = index_.find(std::string(name)); found != index_.end()) {
    return tensors()[found->second];
  }
  std::vector<std::string> names;
  for (const ManifestTensor& tensor : tensors()) names.push_back(tensor.name);
  const auto close = nearest(name, names);
  throw Error(Fault::data, format("{}: has no tensor '{}'{}", folder_.string(), name,
                                  close ? format("; did you mean '{}'?", *close) : ""));
}

int64_t Checkpoint::bytes() const {
  int64_t total = 0;
  for (const ManifestFile& file : files()) total += file.bytes;
  return total;
}

std::string Checkpoint::where(const ManifestTensor& tensor, const RowPiece& piece) const {
  return format("{}: tensor '{}', rows [{}, {})", (folder_ / piece.file).string(), tensor.name,
                piece.first_row, piece.last_row);
}

void Checkpoint::check_piece(const ManifestTensor& tensor, const RowPiece& piece) const {
  const int64_t bytes = (piece.last_row - piece.first_row) * tensor.row_bytes();
  const uint64_t got = hash_of(file(piece.file), piece.offset, bytes);
  require_data(got == piece.hash, "{}: expected hash {}, got {}", where(tensor, piece),
               hash_text(piece.hash), hash_text(got));
}

void Checkpoint::check_header(const ManifestFile& listed) const {
  const uint64_t got = hash_of(file(listed.name), 0, listed.header_bytes);
  require_data(got == listed.header_hash, "{}: header: expected hash {}, got {}",
               (folder_ / listed.name).string(), hash_text(listed.header_hash), hash_text(got));
}

std::vector<std::string> Checkpoint::problems(size_t max_problems) const {
  std::vector<std::pair<const ManifestTensor*, const RowPiece*>> pieces;
  for (const ManifestTensor& tensor : tensors()) {
    for (const RowPiece& piece : tensor.pieces) pieces.emplace_back(&tensor, &piece);
  }
  const size_t headers = files().size();
  std::vector<std::string> found(headers + pieces.size());  // by place, so in one order
  Progress progress("verifying " + folder_.string(), bytes(), "B");
  const auto check = [&](size_t i) {
    if (i < headers) return check_header(files()[i]);
    const auto [tensor, piece] = pieces[i - headers];
    check_piece(*tensor, *piece);
    progress.add((piece->last_row - piece->first_row) * tensor->row_bytes());
  };
  parallel_for(static_cast<int64_t>(found.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      stop_if_interrupted();
      try {
        check(i);
      } catch (const Error& error) {
        found[i] = error.what();
      }
    }
  });
  std::erase(found, "");
  verified_ = found.empty();
  if (found.size() > max_problems) found.resize(max_problems);
  return found;
}

void Checkpoint::load_into(std::string_view name, const Tensor& to) const {
  const ManifestTensor& from = tensor(name);
  require_data(to.shape() == from.shape && to.dtype() == from.dtype,
               "{}: tensor '{}': expected {} {}, got {} {}", folder_.string(), name, to.dtype(),
               to.shape(), from.dtype, from.shape);
  load_rows(name, 0, to);
}

Tensor Checkpoint::load(std::string_view name, Purpose purpose) const {
  const ManifestTensor& from = tensor(name);
  Tensor to(from.shape, from.dtype, kCpu, purpose);
  load_rows(name, 0, to);
  return to;
}

void Checkpoint::load_rows(std::string_view name, int64_t first_row, const Tensor& to) const {
  const ManifestTensor& from = tensor(name);
  const int64_t last_row = first_row + to.rows();
  require(to.dtype() == from.dtype && to.cols() == from.shape.cols() && first_row >= 0 &&
              last_row <= from.shape.rows(),
          "{}: tensor '{}' {} {}: cannot fill {} {} from row {}", folder_.string(), name,
          from.dtype, from.shape, to.dtype(), to.shape(), first_row);
  if (to.numel() == 0) return;
  if (to.device() != kCpu) {
    const Tensor read(to.shape(), to.dtype(), kCpu, Purpose::workspace);
    load_rows(name, first_row, read);
    return copy_into(to, read);
  }
  parallel_for(static_cast<int64_t>(from.pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const RowPiece& piece = from.pieces[static_cast<size_t>(i)];
      if (piece.first_row < last_row && first_row < piece.last_row) {
        read_overlap(from, piece, first_row, to);
      }
    }
  });
}

// The rows of `piece` that belong into `to`, whose first row is `first_row`. A hash covers a whole
// piece, so one that is needed in part is read twice.
void Checkpoint::read_overlap(const ManifestTensor& from, const RowPiece& piece, int64_t first_row,
                              const Tensor& to) const {
  const int64_t begin = std::max(piece.first_row, first_row);
  const int64_t end = std::min(piece.last_row, first_row + to.rows());
  const int64_t row_bytes = from.row_bytes();
  const bool whole = to.dense() && begin == piece.first_row && end == piece.last_row;
  if (!verified_ && !whole) check_piece(from, piece);
  const int64_t rows_at_once = to.dense() ? end - begin : 1;
  for (int64_t row = begin; row < end; row += rows_at_once) {
    const std::span bytes(row_of(to, row - first_row),
                          static_cast<size_t>(rows_at_once * row_bytes));
    file(piece.file).read(piece.offset + (row - piece.first_row) * row_bytes, bytes);
    if (verified_ || !whole) continue;
    const uint64_t got = xxh3(bytes);
    require_data(got == piece.hash, "{}: expected hash {}, got {}", where(from, piece),
                 hash_text(piece.hash), hash_text(got));
  }
}

}  // namespace tephra

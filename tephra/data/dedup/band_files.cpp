// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/band_files.h"

#include <algorithm>
#include <span>

#include "tephra/base/error.h"
#include "tephra/base/format.h"
#include "tephra/base/hash.h"

namespace tephra {
namespace {

constexpr int64_t kLeastBuffer = 4096, kMostBuffer = int64_t{1} << 20;
constexpr size_t kMostOpen = 256;  // files: a process may often hold no more than 1024

template <class T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// By which a file is known as the one that is awaited.
uint64_t mark_of(const BandPlan& plan, size_t from, size_t to) {
  return xxh3(format("{}: {} to {} of {}, {} ranges of {} bands", plan.run, from, to, plan.ranks,
                     plan.ranges, plan.bands));
}

}  // namespace

Path BandPlan::path(size_t from, size_t to) const {
  return folder / format("{}-to-{}.bands", from, to);
}

BandSpread::BandSpread(BandPlan plan, size_t from, int64_t buffer_bytes)
    : plan_(std::move(plan)),
      from_(from),
      buffers_(plan_.ranks * plan_.parts()),
      outputs_(plan_.ranks) {
  const int64_t each =
      std::clamp(buffer_bytes / static_cast<int64_t>(buffers_.size()), kLeastBuffer, kMostBuffer);
  capacity_ = static_cast<size_t>(each) / sizeof(BandRecord);
  make_writable_folder(plan_.folder);
  for (auto& buffer : buffers_) buffer.reserve(capacity_);
}

BandSpread::~BandSpread() {
  if (finished_) return;
  for (size_t to = 0; to < outputs_.size(); ++to) {
    std::error_code ignored;
    std::filesystem::remove(plan_.path(from_, to), ignored);
  }
}

// Files that are many are opened each time.
void BandSpread::append(size_t to, int64_t at, std::string_view bytes) {
  Output& output = outputs_[to];
  if (!output.file) {
    output.file =
        std::make_unique<AppendFile>(plan_.path(from_, to), at, AppendFile::WhenFull::fail);
  }
  output.file->append(bytes);
  if (outputs_.size() <= kMostOpen) return;
  output.file->close();
  output.file.reset();
}

void BandSpread::write(size_t range, size_t band) {
  std::vector<BandRecord>& buffer = buffers_[range * plan_.bands + band];
  const size_t to = range / plan_.ranges, part = plan_.part(range, band);
  Output& output = outputs_[to];
  const std::string_view bytes = bytes_of(std::span<const BandRecord>(buffer));
  append(to, output.records * static_cast<int64_t>(sizeof(BandRecord)), bytes);
  output.chunks.push_back(
      {static_cast<uint32_t>(part), static_cast<uint32_t>(buffer.size()), xxh3(bytes)});
  output.records += static_cast<int64_t>(buffer.size());
  buffer.clear();
}

void BandSpread::finish() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].empty()) write(i / plan_.bands, i % plan_.bands);
    release(buffers_[i]);
  }
  for (size_t to = 0; to < outputs_.size(); ++to) {
    Output& output = outputs_[to];
    std::string end(bytes_of(std::span<const Chunk>(output.chunks)));
    const Footer footer{mark_of(plan_, from_, to), output.chunks.size(),
                        static_cast<uint64_t>(output.records), xxh3(end)};
    end += bytes_of(std::span<const Footer>(&footer, 1));
    append(to, output.records * static_cast<int64_t>(sizeof(BandRecord)), end);
    if (output.file) output.file->close();
    output = Output();
  }
  finished_ = true;
}

BandShare::BandShare(BandPlan plan, size_t to)
    : plan_(std::move(plan)), to_(to), parts_(plan_.parts()) {
  for (size_t from = 0; from < plan_.ranks; ++from) read_footer(from);
}

void BandShare::read_footer(size_t from) {
  using Chunk = BandSpread::Chunk;
  const FileReader file(plan_.path(from, to_));
  BandSpread::Footer footer;
  const auto after = static_cast<int64_t>(sizeof(footer));
  require_data(file.size() >= after, "{}: is cut: it has {} bytes", file.path().string(),
               file.size());
  file.read(file.size() - after, std::as_writable_bytes(std::span(&footer, 1)));
  const unsigned __int128 bytes =
      static_cast<unsigned __int128>(footer.records) * sizeof(BandRecord) +
      static_cast<unsigned __int128>(footer.chunks) * sizeof(Chunk) + sizeof(footer);
  require_data(
      footer.plan == mark_of(plan_, from, to_) &&
          bytes == static_cast<unsigned __int128>(file.size()),
      "{}: is cut, or not what rank {} wrote for rank {} in this run (all need one --memory)",
      file.path().string(), from, to_);
  std::vector<Chunk> chunks(footer.chunks);
  file.read(static_cast<int64_t>(footer.records * sizeof(BandRecord)),
            std::as_writable_bytes(std::span(chunks)));
  require_data(xxh3(bytes_of(std::span<const Chunk>(chunks))) == footer.hash, "{}: is damaged",
               file.path().string());
  int64_t offset = 0;
  for (const Chunk& chunk : chunks) {
    parts_[chunk.part].push_back({from, offset, chunk.records, chunk.hash});
    offset += static_cast<int64_t>(chunk.records * sizeof(BandRecord));
  }
  records_ += static_cast<int64_t>(footer.records);
}

void BandShare::read(size_t part, std::vector<BandRecord>& to) const {
  size_t count = 0;
  for (const Piece& piece : parts_[part]) count += piece.records;
  resize_exactly(to, count);
  std::span<BandRecord> rest(to);
  std::unique_ptr<FileReader> file;
  for (const Piece& piece : parts_[part]) {
    const Path path = plan_.path(piece.from, to_);
    if (!file || file->path() != path) file = std::make_unique<FileReader>(path);
    const std::span<BandRecord> here = rest.first(piece.records);
    file->read(piece.offset, std::as_writable_bytes(here));
    require_data(xxh3(std::as_bytes(here)) == piece.hash, "{}: is damaged", path.string());
    rest = rest.subspan(piece.records);
  }
}

}  // namespace tephra

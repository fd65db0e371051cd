// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/dedup_index.h"

#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/data/dedup/document_sketch.h"

namespace tephra {
namespace {

std::shared_ptr<MappedFile> open_checked(const Path& path, uint64_t hash, size_t least,
                                         Progress& progress) {
  std::shared_ptr<MappedFile> file = MappedFile::open(path);
  if (file->bytes().size() < least || xxh3(file->bytes()) != hash) {
    throw Error(Fault::data, format("{}: is damaged: it is not what was written", path.string()),
                "make the index anew from the documents it was made of");
  }
  progress.add(static_cast<int64_t>(file->bytes().size()));
  stop_if_interrupted();
  return file;
}

int64_t bytes_of(const Path& path) {
  std::error_code ignored;
  const std::uintmax_t size = std::filesystem::file_size(path, ignored);
  return ignored ? 0 : static_cast<int64_t>(size);
}

}  // namespace

DedupIndex::DedupIndex(const Path& folder, IndexManifest manifest)
    : folder_(folder), manifest_(std::move(manifest)) {
  const bool full = manifest_.kind == IndexKind::full;
  int64_t bytes = 0;
  for (const IndexSegment& segment : manifest_.segments) {
    bytes += bytes_of(folder / segment.name / (full ? kBandsFile : kBloomFile)) +
             (full ? bytes_of(folder / segment.name / kDocumentsFile) : 0);
  }
  Progress progress("index", bytes, "B");
  for (const IndexSegment& segment : manifest_.segments) {
    const auto bands = static_cast<size_t>(manifest_.bands);
    const auto documents = static_cast<size_t>(segment.documents);
    const Path at = folder / segment.name;
    Segment files;
    if (full) {
      files.bands = open_checked(at / kBandsFile, segment.bands_hash,
                                 bands * documents * sizeof(BandRecord), progress);
      files.documents = open_checked(at / kDocumentsFile, segment.documents_hash,
                                     (documents + 1) * sizeof(uint64_t), progress);
    } else {
      files.bands = open_checked(at / kBloomFile, segment.bands_hash,
                                 bands * segment.bloom.bits / 8, progress);
    }
    segments_.push_back(std::move(files));
  }
}

std::span<const BandRecord> DedupIndex::band(size_t segment, int64_t band) const {
  const auto documents = static_cast<size_t>(manifest_.segments[segment].documents);
  const auto* records =
      reinterpret_cast<const BandRecord*>(segments_[segment].bands->bytes().data());
  return {records + static_cast<size_t>(band) * documents, documents};
}

BloomFilter DedupIndex::filter(size_t segment, int64_t band) const {
  const BloomShape& shape = manifest_.segments[segment].bloom;
  const auto* words = reinterpret_cast<const uint64_t*>(segments_[segment].bands->bytes().data());
  const size_t each = shape.bits / 64;
  return {shape, std::span(words + static_cast<size_t>(band) * each, each)};
}

// documents.bin: sketches with ids, then where each begins and where the last one ends.
std::string_view DedupIndex::document(size_t segment, uint32_t document) const {
  const std::span<const std::byte> bytes = segments_[segment].documents->bytes();
  const auto documents = static_cast<size_t>(manifest_.segments[segment].documents);
  const size_t table = bytes.size() - (documents + 1) * sizeof(uint64_t);
  uint64_t range[2];
  std::memcpy(range, bytes.data() + table + document * sizeof(uint64_t), sizeof range);
  require_data(range[0] <= range[1] && range[1] <= table, "{}: segment {} is damaged",
               folder_.string(), manifest_.segments[segment].name);
  return {reinterpret_cast<const char*>(bytes.data()) + range[0], range[1] - range[0]};
}

std::string_view DedupIndex::id(size_t segment, uint32_t document) const {
  std::string_view bytes = this->document(segment, document);
  return take_sketch(bytes, folder_.string()).id;
}

std::vector<uint32_t> DedupIndex::sketch(size_t segment, uint32_t document) const {
  std::string_view bytes = this->document(segment, document);
  return take_sketch(bytes, folder_.string()).hashes;
}

}  // namespace tephra

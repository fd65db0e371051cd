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

constexpr int64_t kIndexVersion = 1;
constexpr const char* kIndexFormat = "tephra dedup index";

uint64_t hash_field(const Fields& fields, const char* key) {
  const std::optional<uint64_t> hash = parse_hash(fields.string(key));
  require_data(hash.has_value(), "{}: {}: expected sixteen hexadecimal digits", fields.where(),
               key);
  return *hash;
}

IndexSegment read_segment(const Json& json, IndexKind kind, const std::string& where) {
  const Fields fields(json, where);
  IndexSegment segment;
  segment.name = fields.string("name");
  segment.documents = fields.integer("documents");
  require_data(segment.documents >= 0 && segment.documents < UINT32_MAX &&
                   segment.name.find('/') == std::string::npos && segment.name != "..",
               "{}: a segment is damaged", where);
  segment.bands_hash = hash_field(fields, "bands_hash");
  if (kind == IndexKind::full) {
    segment.documents_hash = hash_field(fields, "documents_hash");
  } else {
    const int64_t bits = fields.integer("bits"), probes = fields.integer("probes");
    require_data(bits > 0 && bits % 64 == 0 && probes > 0 && probes < 256,
                 "{}: the shape of a filter is damaged", where);
    segment.bloom = {static_cast<uint64_t>(bits), static_cast<uint32_t>(probes)};
  }
  return segment;
}

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

Json IndexManifest::to_json() const {
  Json json, list = Json::Array{};
  for (const IndexSegment& segment : segments) {
    Json row;
    row["name"] = segment.name;
    row["documents"] = segment.documents;
    row["bands_hash"] = hash_text(segment.bands_hash);
    if (kind == IndexKind::full) {
      row["documents_hash"] = hash_text(segment.documents_hash);
    } else {
      row["bits"] = static_cast<int64_t>(segment.bloom.bits);
      row["probes"] = static_cast<int64_t>(segment.bloom.probes);
    }
    list.push_back(std::move(row));
  }
  json["format"] = kIndexFormat;
  json["version"] = kIndexVersion;
  json["kind"] = kind == IndexKind::full ? "full" : "bloom";
  json["preset"] = preset;
  json["bands"] = bands;
  json["rows"] = rows;
  json["shingle"] = shingle;
  if (kind == IndexKind::bloom) json["bloom_rate"] = bloom_rate;
  json["segments"] = std::move(list);
  return json;
}

IndexManifest IndexManifest::read(const Path& path) {
  const std::string where = path.string();
  require(std::filesystem::exists(path), "{}: does not exist: {} holds no dedup index", where,
          path.parent_path().string());
  const Json json = Json::parse(read_file(path), where);
  const Fields fields(json, where);
  require_data(fields.string_or("format", "") == kIndexFormat,
               "{}: expected a {}, got something else", where, kIndexFormat);
  const int64_t version = fields.integer("version");
  require_data(version == kIndexVersion,
               "{}: expected version {} of the index, got {}; make it anew with this tephra", where,
               kIndexVersion, version);
  IndexManifest manifest;
  const std::string kind = fields.string("kind");
  require_data(kind == "full" || kind == "bloom", "{}: kind: expected full or bloom, got {}", where,
               kind);
  manifest.kind = kind == "full" ? IndexKind::full : IndexKind::bloom;
  manifest.preset = fields.string("preset");
  manifest.bands = fields.integer("bands");
  manifest.rows = fields.integer("rows");
  manifest.shingle = fields.integer("shingle");
  manifest.bloom_rate = fields.number_or("bloom_rate", 0);
  for (const Json& segment : fields.array("segments")) {
    manifest.segments.push_back(read_segment(segment, manifest.kind, where));
  }
  return manifest;
}

void check_index(const IndexManifest& manifest, const SignaturePreset& preset, const Path& folder) {
  const bool same = manifest.preset == preset.name && manifest.bands == preset.bands &&
                    manifest.rows == preset.rows && manifest.shingle == preset.shingle;
  require(same, "{}: the index has signatures of the preset {} ({} x {}); give --preset {}",
          folder.string(), manifest.preset, manifest.bands, manifest.rows, manifest.preset);
}

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

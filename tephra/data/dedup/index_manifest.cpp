// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/index_manifest.h"

#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"

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

}  // namespace tephra

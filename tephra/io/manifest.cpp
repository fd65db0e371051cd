// SPDX-License-Identifier: Apache-2.0
#include "tephra/io/manifest.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tephra/base/hash.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr std::string_view kFormat = "tephra-training-checkpoint";
constexpr int64_t kVersion = 1;
constexpr std::string_view kHashBegin = "{\"xxh3\": \"";
constexpr std::string_view kHashEnd = "\",\n";
constexpr size_t kHashDigits = 16;

Json piece_json(const RowPiece& piece) {
  Json json;
  json["rows"] = Json::Array{piece.first_row, piece.last_row};
  json["file"] = piece.file;
  json["offset"] = piece.offset;
  json["xxh3"] = hash_text(piece.hash);
  return json;
}

Json tensor_json(const ManifestTensor& tensor) {
  Json json;
  json["name"] = tensor.name;
  json["dtype"] = to_text(tensor.dtype);
  json["shape"] = Json::Array(tensor.shape.dims().begin(), tensor.shape.dims().end());
  json["pieces"] = Json::Array{};
  for (const RowPiece& piece : tensor.pieces) json["pieces"].push_back(piece_json(piece));
  return json;
}

Json file_json(const ManifestFile& file) {
  Json json;
  json["name"] = file.name;
  json["bytes"] = file.bytes;
  json["header_bytes"] = file.header_bytes;
  json["header_xxh3"] = hash_text(file.header_hash);
  return json;
}

// The members of the document as "key": value lines: one line for each tensor, so that two
// manifests can be compared by eye.
template <class List, class ToJson>
std::string list_text(const char* key, const List& list, ToJson to_json) {
  std::string text = format("\"{}\": [", key);
  const char* separator = "\n";
  for (const auto& item : list) {
    text += separator + to_json(item).dump();
    separator = ",\n";
  }
  return text + "\n]";
}

int64_t count(const Fields& fields, std::string_view key) {
  const int64_t value = fields.integer(key);
  require_data(value >= 0, "{}: {} cannot be negative, got {}", fields.where(), key, value);
  return value;
}

uint64_t hash_field(const Fields& fields, std::string_view key) {
  const std::string text = fields.string(key);
  const auto hash = parse_hash(text);
  require_data(hash.has_value(), "{}: {}: expected {} hexadecimal digits, got '{}'", fields.where(),
               key, kHashDigits, clipped(text, 40));
  return *hash;
}

// Files lie in the folder of the manifest, nowhere else.
std::string file_name(const Fields& fields, std::string_view key) {
  const std::string name = fields.string(key);
  require_data(!name.empty() && name[0] != '.' && name.find('/') == std::string::npos,
               "{}: {}: '{}' is not the name of a file in this folder", fields.where(), key,
               clipped(name, 80));
  return name;
}

ManifestFile parse_file(const Fields& fields) {
  ManifestFile file = {file_name(fields, "name"), count(fields, "bytes"),
                       count(fields, "header_bytes"), hash_field(fields, "header_xxh3")};
  require_data(file.header_bytes <= file.bytes, "{}: a header of {} bytes in a file of {}",
               fields.where(), file.header_bytes, file.bytes);
  return file;
}

Shape parse_shape(const Fields& fields) {
  std::vector<int64_t> dims;
  for (const Json& dim : fields.array("shape")) {
    require_data(dim.is_int(), "{}: expected a shape of integers", fields.where());
    dims.push_back(dim.integer());
  }
  try {
    return Shape(dims);
  } catch (const Error& error) {
    throw Error(Fault::data, format("{}: {}", fields.where(), error.what()));
  }
}

RowPiece parse_piece(const Fields& fields) {
  const Json::Array& rows = fields.array("rows");
  require_data(rows.size() == 2 && rows[0].is_int() && rows[1].is_int(),
               "{}: rows: expected two integers", fields.where());
  return {rows[0].integer(), rows[1].integer(), file_name(fields, "file"), count(fields, "offset"),
          hash_field(fields, "xxh3")};
}

using FileSizes = std::unordered_map<std::string, int64_t>;

// Pieces hold every row once, and lie inside their files.
void check_pieces(const ManifestTensor& tensor, const FileSizes& sizes, const std::string& where) {
  int64_t row = 0;
  for (const RowPiece& piece : tensor.pieces) {
    require_data(piece.first_row == row && piece.last_row > row,
                 "{}: expected a piece that begins with row {}, got rows [{}, {})", where, row,
                 piece.first_row, piece.last_row);
    row = piece.last_row;
    require_data(row <= tensor.shape.rows(), "{}: has {} rows, a piece ends at row {}", where,
                 tensor.shape.rows(), row);
    const auto file = sizes.find(piece.file);
    require_data(file != sizes.end(), "{}: the file '{}' is not listed", where, piece.file);
    const int64_t bytes = (piece.last_row - piece.first_row) * tensor.row_bytes();
    require_data(piece.offset <= file->second && bytes <= file->second - piece.offset,
                 "{}: {} bytes at byte {} do not fit into {}, which has {}", where, bytes,
                 piece.offset, piece.file, file->second);
  }
  require_data(row == tensor.shape.rows(), "{}: the pieces hold {} of {} rows", where, row,
               tensor.shape.rows());
}

ManifestTensor parse_tensor(const Fields& fields, const FileSizes& sizes) {
  ManifestTensor tensor;
  tensor.name = fields.string("name");
  const std::string where = format("{}: tensor '{}'", fields.where(), clipped(tensor.name, 120));
  const std::string dtype = fields.string("dtype");
  const auto parsed = parse_dtype(dtype);
  require_data(parsed.has_value(), "{}: unknown dtype '{}'", where, clipped(dtype, 40));
  tensor.dtype = *parsed;
  tensor.shape = parse_shape(fields);
  for (const Json& piece : fields.array("pieces")) {
    tensor.pieces.push_back(parse_piece(Fields(piece, where)));
  }
  check_pieces(tensor, sizes, where);
  return tensor;
}

// What stands behind the first line, whose hash is right.
void check_hash(std::string_view text, const std::string& where) {
  const size_t line = kHashBegin.size() + kHashDigits + kHashEnd.size();
  const bool begins = text.size() >= line && text.starts_with(kHashBegin) &&
                      text.substr(line - kHashEnd.size(), kHashEnd.size()) == kHashEnd;
  require_data(begins, "{}: is no manifest: its first line holds no hash", where);
  const std::string expected(text.substr(kHashBegin.size(), kHashDigits));
  const std::string got = hash_text(xxh3(text.substr(line)));
  require_data(got == expected, "{}: was damaged: expected hash {}, got {}", where,
               clipped(expected, kHashDigits), got);
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  std::string body =
      format("\"format\": \"{}\",\n\"version\": {},\n\"step\": {},\n\"state\": {},\n", kFormat,
             kVersion, manifest.step, manifest.state.dump());
  body += list_text("files", manifest.files, file_json) + ",\n";
  body += list_text("tensors", manifest.tensors, tensor_json) + "\n}\n";
  return std::string(kHashBegin) + hash_text(xxh3(body)) + std::string(kHashEnd) + body;
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  check_hash(text, where);
  const Json json = Json::parse(text, where);
  const Fields fields(json, where);
  require_data(fields.string("format") == kFormat, "{}: is no manifest of a training checkpoint",
               where);
  const int64_t version = fields.integer("version");
  require_data(version == kVersion, "{}: has version {}, this program reads version {}", where,
               version, kVersion);
  Manifest manifest;
  manifest.step = count(fields, "step");
  if (const Json* state = json.find("state")) manifest.state = *state;
  FileSizes sizes;
  for (const Json& file : fields.array("files")) {
    manifest.files.push_back(parse_file(Fields(file, where + ": files")));
    const ManifestFile& added = manifest.files.back();
    require_data(sizes.emplace(added.name, added.bytes).second, "{}: lists the file '{}' twice",
                 where, added.name);
  }
  std::unordered_set<std::string> names;
  for (const Json& tensor : fields.array("tensors")) {
    manifest.tensors.push_back(parse_tensor(Fields(tensor, where), sizes));
    require_data(names.insert(manifest.tensors.back().name).second,
                 "{}: lists the tensor '{}' twice", where, manifest.tensors.back().name);
  }
  return manifest;
}

}  // namespace tephra

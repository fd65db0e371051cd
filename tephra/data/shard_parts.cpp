// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/shard_parts.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/data/corpus/journal.h"
#include "tephra/io/token_shard_format.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanFile = "plan";

int64_t weight_of(const Path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? 1 : static_cast<int64_t>(size) + 1;
}

// Where each part begins, and where the last one ends: a file is in the part in which the middle of
// its bytes falls.
std::vector<size_t> split_files(std::span<const Path> files, size_t from, int64_t count) {
  double total = 0, before = 0;
  for (const Path& file : files.subspan(from)) total += static_cast<double>(weight_of(file));
  std::vector<size_t> begins(static_cast<size_t>(count) + 1, files.size());
  begins[0] = from;
  size_t part = 0;
  for (size_t i = from; i < files.size(); ++i) {
    const auto weight = static_cast<double>(weight_of(files[i]));
    const double middle = (before + weight / 2) / total;
    const auto mine = static_cast<size_t>(middle * static_cast<double>(count));
    while (part < std::min(mine, static_cast<size_t>(count) - 1)) begins[++part] = i;
    before += weight;
  }
  return begins;
}

}  // namespace

Path ShardParts::folder(const Path& prefix) { return token_shard::with_suffix(prefix, ".parts"); }

Path ShardParts::path(int64_t part) const { return folder(prefix_) / std::to_string(part); }

ShardParts::ShardParts(std::span<const Path> files, const Path& prefix, size_t from, int64_t count)
    : files_(files),
      prefix_(prefix),
      from_(from),
      count_(count),
      begins_(split_files(files, from, count)) {}

std::optional<ShardParts> ShardParts::read(std::span<const Path> files, const Path& prefix,
                                           const ShardRecord& whole) {
  const Path path = folder(prefix) / kPlanFile;
  if (!fs::exists(path)) return std::nullopt;
  const std::string text = read_file(path);
  const std::optional<std::string_view> line = checked_line(text);
  if (!line) return std::nullopt;
  const Json json = Json::parse(*line, path.string());
  const Fields fields(json, path.string());
  if (fields.string("of") != whole.made_of()) return std::nullopt;
  const int64_t from = fields.integer("from"), count = fields.integer("count");
  if (from < 0 || from > std::ssize(files) || count < 1) return std::nullopt;
  return ShardParts(files, prefix, static_cast<size_t>(from), count);
}

void ShardParts::write(const ShardRecord& whole) const {
  const Path folder = ShardParts::folder(prefix_);
  make_writable_folder(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".lock") fs::remove_all(entry.path());
  }
  Json json;
  json["of"] = whole.made_of();
  json["from"] = static_cast<int64_t>(from_);
  json["count"] = count_;
  write_file(folder / kPlanFile, hashed_line(json.dump()));
}

}  // namespace tephra

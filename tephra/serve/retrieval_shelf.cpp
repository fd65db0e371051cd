// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/retrieval_shelf.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/index_builder.h"
#include "tephra/retrieve/index_file.h"
#include "tephra/serve/api_error.h"

namespace tephra {
namespace {

constexpr size_t kMaxNameSize = 64;
constexpr size_t kMaxIndexes = 256;
constexpr const char* kIndexEnding = ".index";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::shared_ptr<const Index> opened(const Path& file) {
  return std::make_shared<const Index>(open_index(file));
}

}  // namespace

bool is_shelf_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameSize && is_letter_or_digit(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
         });
}

void check_shelf_name(const std::string& name, const std::string& param) {
  require_field(is_shelf_name(name), param,
                "expected 1 to {} letters, digits, dots, dashes or underscores, the first a letter "
                "or a digit, got '{}'",
                kMaxNameSize, clipped(name, 80));
}

IndexShelf::IndexShelf(IndexShelfOptions options) : options_(std::move(options)) {
  for (const auto& [name, file] : options_.files) {
    require(is_shelf_name(name),
            "--index: expected NAME=FILE with a name of letters, digits, . _ -"
            " , got '{}'",
            clipped(name, 80));
    require(!indexes_.contains(name), "--index: '{}' is given twice", name);
    indexes_[name] = {opened(file), false};
  }
  if (!options_.folder) return;
  make_writable_folder(*options_.folder);
  for (const auto& item : std::filesystem::directory_iterator(*options_.folder)) {
    const std::string name = item.path().stem().string();
    if (item.path().extension() != kIndexEnding || !is_shelf_name(name)) continue;
    require(!indexes_.contains(name), "--index: '{}' is also the name of {}", name,
            item.path().string());
    indexes_[name] = {opened(item.path()), true};
  }
}

ShelvedIndex IndexShelf::find(const std::string& name, const std::string& param) const {
  check_shelf_name(name, param);
  const std::lock_guard lock(mutex_);
  const auto found = indexes_.find(name);
  if (found != indexes_.end()) return found->second;
  throw ApiError(404, format("there is no index '{}'; see /v1/indexes", name), param,
                 "index_not_found");
}

std::map<std::string, ShelvedIndex> IndexShelf::all() const {
  const std::lock_guard lock(mutex_);
  return indexes_;
}

void IndexShelf::check_room(const std::string& name, int64_t bytes) const {
  size_t count = 1;
  for (const auto& [other, shelved] : all()) {
    if (!shelved.uploaded || other == name) continue;
    bytes += shelved.index->bytes();
    ++count;
  }
  if (bytes > options_.most_bytes || count > kMaxIndexes) {
    throw ApiError(413,
                   format("all indexes that were sent would take {} in {} indexes; this server "
                          "keeps {} in {}",
                          human_bytes(bytes), count, human_bytes(options_.most_bytes), kMaxIndexes),
                   "documents", "indexes_full");
  }
}

std::shared_ptr<const Index> IndexShelf::put(const std::string& name,
                                             const std::vector<SentDocument>& documents,
                                             const ChunkOptions& chunks, IfThere if_there) {
  check_shelf_name(name, "name");
  const std::lock_guard one_at_a_time(writing_);
  std::optional<IndexBuilder> builder;
  if (const auto known = all(); known.contains(name)) {
    if (!known.at(name).uploaded) {
      throw ApiError(409, format("index '{}' is the server's own; choose another name", name),
                     "name");
    }
    if (if_there == IfThere::refuse) {
      throw ApiError(409,
                     format("there is an index '{}' already; \"append\": true adds to it, "
                            "\"replace\": true replaces it",
                            name),
                     "name");
    }
    if (if_there == IfThere::append) builder.emplace(*known.at(name).index);
  }
  if (!builder) builder.emplace(chunks);
  std::shared_ptr<const Index> index;
  try {
    for (const SentDocument& d : documents) builder->add(d.name, d.text);
    index = std::make_shared<const Index>(builder->finish());
  } catch (const Error& e) {
    if (e.fault() != Fault::data) throw;
    throw ApiError(400, e.what(), "documents");
  }
  check_room(name, index->bytes());
  if (options_.folder) {  // from there on it is the file's memory, which the system may take back
    write_index(file_of(name), *index);
    index = opened(file_of(name));
  }
  const std::lock_guard lock(mutex_);
  indexes_[name] = {index, true};
  return index;
}

void IndexShelf::remove(const std::string& name) {
  const std::lock_guard one_at_a_time(writing_);
  if (!find(name, "name").uploaded) {
    throw ApiError(409, format("index '{}' is the server's own and stays", name), "name");
  }
  if (options_.folder) {
    std::error_code error;
    std::filesystem::remove(file_of(name), error);
    require_data(!error, "{}: cannot be removed: {}", file_of(name).string(), error.message());
  }
  const std::lock_guard lock(mutex_);
  indexes_.erase(name);
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// A model's tensors in a Hugging Face folder: one file, or shards and an index.
#include <algorithm>

#include "tephra/base/json.h"
#include "tephra/base/temporary_name.h"
#include "tephra/base/text.h"
#include "tephra/io/replace_tensors.h"
#include "tephra/io/safetensors.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

// Names that the format gives to shards. Others are not ours to remove.
bool is_shard_name(std::string_view name) {
  constexpr std::string_view kPattern = "model-00000-of-00000.safetensors";
  return std::equal(name.begin(), name.end(), kPattern.begin(), kPattern.end(),
                    [](char c, char p) { return p == '0' ? c >= '0' && c <= '9' : c == p; });
}

std::vector<std::string> shards_in(const Path& folder) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) {
    if (std::string name = item.path().filename().string(); is_shard_name(name)) {
      names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Tensor name -> file name. A file name from an index must stay within the folder.
std::map<std::string, std::string> read_weight_map(const Path& index) {
  const Json json = Json::parse(read_file(index), index.string());
  const Fields weights = Fields(json, index.string()).object("weight_map");
  std::map<std::string, std::string> result;
  for (const auto& [tensor, unused] : weights.json().object()) {
    const std::string file = weights.string(tensor);
    const bool plain = file.find_first_of(std::string_view("/\\\0", 3)) == file.npos;
    require_data(plain && file.ends_with(".safetensors"),
                 "{}: tensor '{}': '{}' is not the name of a .safetensors file of this folder",
                 index.string(), clipped(tensor, 120), clipped(file, 120));
    result.emplace(tensor, file);
  }
  return result;
}

[[noreturn]] void no_model(const Path& folder) {
  const auto shards = shards_in(folder);
  if (shards.empty()) {
    throw Error(Fault::usage, format("{}: holds no model: neither {} nor {} is there",
                                     folder.string(), kSingle, kIndex));
  }
  throw Error(Fault::data, format("{}: holds {} shards ({}, ...) but no {}; the copy or export is "
                                  "not complete",
                                  folder.string(), shards.size(), shards[0], kIndex));
}

std::vector<SafetensorsFile> open_shards(const Path& folder,
                                         const std::map<std::string, std::string>& weight_map) {
  std::map<std::string, std::string> first_tensor;  // file name -> a tensor it should hold
  for (const auto& [tensor, file] : weight_map) first_tensor.emplace(file, tensor);
  std::vector<SafetensorsFile> files;
  for (const auto& [file, tensor] : first_tensor) {
    require_data(fs::exists(folder / file),
                 "{}: does not exist, but {} says that it holds tensor '{}'",
                 (folder / file).string(), kIndex, tensor);
    files.push_back(SafetensorsFile::open(folder / file));
  }
  return files;
}

void check_index(const Path& index, const std::map<std::string, std::string>& weight_map,
                 const TensorFolder& folder) {
  for (const auto& [tensor, file] : weight_map) {
    require_data(folder.contains(tensor) && folder.path_of(tensor).filename() == file,
                 "{}: says that tensor '{}' is in {}, but it is not there", index.string(), tensor,
                 file);
  }
  for (const std::string& tensor : folder.names()) {
    require_data(weight_map.contains(tensor), "{}: holds tensor '{}', which {} does not list",
                 folder.path_of(tensor).string(), tensor, kIndex);
  }
}

}  // namespace

TensorFolder TensorFolder::open(const Path& folder) {
  require_folder(folder, "a model folder");
  const bool single = fs::exists(folder / kSingle);
  const bool sharded = fs::exists(folder / kIndex);
  require_data(!single || !sharded,
               "{}: holds both {} and {}; remove the one that is not this model", folder.string(),
               kSingle, kIndex);
  if (!single && !sharded) no_model(folder);

  TensorFolder result;
  result.folder_ = folder;
  std::map<std::string, std::string> weight_map;
  if (single) {
    result.files_.push_back(SafetensorsFile::open(folder / kSingle));
  } else {
    weight_map = read_weight_map(folder / kIndex);
    result.files_ = open_shards(folder, weight_map);
  }
  for (size_t i = 0; i < result.files_.size(); ++i) {
    for (const TensorEntry& entry : result.files_[i].entries()) {
      const auto [at, added] = result.owner_.emplace(entry.name, i);
      require_data(added, "{}: tensor '{}' is also in {}", result.files_[i].path().string(),
                   entry.name, result.files_[at->second].path().filename().string());
      result.names_.push_back(entry.name);
    }
  }
  if (sharded) check_index(folder / kIndex, weight_map, result);
  return result;
}

const SafetensorsFile& TensorFolder::file_of(std::string_view name) const {
  const auto found = owner_.find(std::string(name));
  if (found != owner_.end()) return files_[found->second];
  const auto close = nearest(name, names_);
  throw Error(Fault::data, format("{}: has no tensor '{}'{}", folder_.string(), name,
                                  close ? format("; did you mean '{}'?", *close) : ""));
}

const TensorEntry& TensorFolder::entry(std::string_view name) const {
  return file_of(name).entry(name);
}

Tensor TensorFolder::tensor(std::string_view name) const { return file_of(name).tensor(name); }

void TensorFolder::read(std::string_view name, std::span<std::byte> to) const {
  file_of(name).read(name, to);
}

void TensorFolder::release(std::string_view name) const { file_of(name).release(name); }

const Path& TensorFolder::path_of(std::string_view name) const { return file_of(name).path(); }

namespace {

// Fills shards in order; a tensor that is larger than a shard has one to itself.
std::vector<std::vector<TensorEntry>> cut_into_shards(std::vector<TensorEntry> entries,
                                                      int64_t max_shard_bytes) {
  std::vector<std::vector<TensorEntry>> shards(1);
  int64_t filled = 0;
  for (TensorEntry& entry : entries) {
    const int64_t bytes = entry.shape.numel() * size_of(entry.dtype);
    if (filled + bytes > max_shard_bytes && !shards.back().empty()) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    shards.back().push_back(std::move(entry));
  }
  return shards;
}

void write_index(const Path& path, const std::vector<std::string>& files,
                 const std::vector<std::vector<TensorEntry>>& shards) {
  int64_t total = 0;
  Json::Object weight_map;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const TensorEntry& entry : shards[i]) {
      total += entry.shape.numel() * size_of(entry.dtype);
      weight_map.emplace_back(entry.name, files[i]);
    }
  }
  Json index;
  index["metadata"]["total_size"] = total;
  index["weight_map"] = std::move(weight_map);
  write_file(path, index.dump(2) + "\n");
}

// Files under temporary names until all are whole; what has not got its name then goes again.
class StagedFiles {
 public:
  StagedFiles(const Path& folder, const std::vector<std::string>& names)
      : folder_(folder), names_(names) {}
  ~StagedFiles() {
    std::error_code ignored;
    for (size_t i = named_; i < names_.size(); ++i) fs::remove(path(i), ignored);
  }
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  Path path(size_t i) const { return folder_ / temporary_name(names_[i], static_cast<int64_t>(i)); }
  void take_their_names() {
    for (; named_ < names_.size(); ++named_) fs::rename(path(named_), folder_ / names_[named_]);
    flush_folder(folder_);
  }

 private:
  const Path& folder_;
  const std::vector<std::string>& names_;
  size_t named_ = 0;
};

}  // namespace

std::vector<std::string> write_tensor_folder(const Path& folder, std::vector<TensorEntry> entries,
                                             int64_t max_shard_bytes,
                                             FunctionRef<Tensor(const TensorEntry&)> produce) {
  return replace_tensor_folder(folder, std::move(entries), max_shard_bytes, produce, [] {});
}

std::vector<std::string> replace_tensor_folder(const Path& folder, std::vector<TensorEntry> entries,
                                               int64_t max_shard_bytes,
                                               FunctionRef<Tensor(const TensorEntry&)> produce,
                                               FunctionRef<void()> before_replacing) {
  require(max_shard_bytes > 0, "a shard must hold at least one byte, got {}", max_shard_bytes);
  make_writable_folder(folder);
  const auto shards = cut_into_shards(std::move(entries), max_shard_bytes);
  std::vector<std::string> files;
  for (size_t i = 1; i <= shards.size(); ++i) {
    files.push_back(shards.size() == 1
                        ? std::string(kSingle)
                        : format("model-{:05}-of-{:05}.safetensors", i, shards.size()));
  }
  const bool sharded = shards.size() > 1;
  if (sharded)
    files.emplace_back(kIndex);  // last: over a part of the shards it would read as a model
  StagedFiles staged(folder, files);
  for (size_t i = 0; i < shards.size(); ++i) {
    write_safetensors(staged.path(i), shards[i], {{"format", "pt"}}, produce);
  }
  if (sharded) write_index(staged.path(shards.size()), files, shards);
  before_replacing();
  if (sharded) fs::remove(folder / kIndex);
  staged.take_their_names();

  fs::remove(folder / (sharded ? kSingle : kIndex));
  for (const std::string& file : shards_in(folder)) {
    if (std::find(files.begin(), files.end(), file) == files.end()) fs::remove(folder / file);
  }
  return files;
}

}  // namespace tephra

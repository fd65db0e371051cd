// SPDX-License-Identifier: Apache-2.0
// safetensors files: eight bytes of header length, a JSON header, then raw little-endian tensors.
// The reader maps the file and checks everything before it hands out a tensor; the writer is
// atomic.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/function_ref.h"
#include "tephra/core/tensor.h"

namespace tephra {

struct TensorEntry {
  std::string name;
  DType dtype;
  Shape shape;
  int64_t begin = 0;  // of its bytes, counted from the first byte after the header
  int64_t end = 0;
};

using Metadata = std::map<std::string, std::string>;

class SafetensorsFile {
 public:
  // Throws Fault::data that says what is wrong where; never reads out of bounds.
  static SafetensorsFile open(const Path& path);

  const Path& path() const { return file_->path(); }
  const std::vector<TensorEntry>& entries() const { return entries_; }  // in the order of the data
  const Metadata& metadata() const { return metadata_; }
  bool contains(std::string_view name) const { return index_.contains(std::string(name)); }
  const TensorEntry& entry(std::string_view name) const;

  // A read-only view of the mapped bytes, which it keeps alive; an aligned copy where the file
  // holds the tensor at an address that its dtype cannot be read from.
  Tensor tensor(std::string_view name) const;
  // Its bytes, read into memory of the caller's.
  void read(std::string_view name, std::span<std::byte> to) const;
  // See MappedFile: of the blocks that hold these tensors, which are read again and again; names
  // that are not in the file are passed over.
  std::vector<int64_t> small_blocks(const std::unordered_set<std::string>& tensors) const;
  bool copy_blocks(const std::vector<int64_t>& blocks, FunctionRef<void(int64_t)> copied) const {
    return file_->copy_blocks(blocks, copied);
  }
  // Lets go of the memory of a tensor that was read, so that a walk over a large file stays small.
  void release(std::string_view name) const;

 private:
  std::shared_ptr<MappedFile> file_;
  int64_t data_offset_ = 0;
  std::vector<TensorEntry> entries_;
  std::unordered_map<std::string, size_t> index_;
  Metadata metadata_;
};

// Writes `entries` (begin and end are filled in here) in the given order, asking for one tensor at
// a time, so that a model larger than memory can be written. A produced tensor has the entry's
// dtype and shape.
void write_safetensors(const Path& path, std::vector<TensorEntry> entries, const Metadata& metadata,
                       FunctionRef<Tensor(const TensorEntry&)> produce);
void write_safetensors(const Path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const Metadata& metadata = {});

// The tensors of a Hugging Face folder: model.safetensors, or model-*.safetensors with
// model.safetensors.index.json. Checks that index and files agree.
class TensorFolder {
 public:
  static TensorFolder open(const Path& folder);

  const std::vector<SafetensorsFile>& files() const { return files_; }
  const std::vector<std::string>& names() const { return names_; }  // in file order
  bool contains(std::string_view name) const { return owner_.contains(std::string(name)); }
  const TensorEntry& entry(std::string_view name) const;
  Tensor tensor(std::string_view name) const;
  void read(std::string_view name, std::span<std::byte> to) const;
  void release(std::string_view name) const;
  // Which file holds it, for messages.
  const Path& path_of(std::string_view name) const;

 private:
  const SafetensorsFile& file_of(std::string_view name) const;

  Path folder_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> owner_;
};

// Writes model.safetensors, or shards of at most `max_shard_bytes` with an index. Files that a
// previous, differently sharded model left in the folder are removed last. Returns the names of
// what it wrote; of a write that fails, whole shards go again.
std::vector<std::string> write_tensor_folder(const Path& folder, std::vector<TensorEntry> entries,
                                             int64_t max_shard_bytes,
                                             FunctionRef<Tensor(const TensorEntry&)> produce);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Training checkpoints, read: RUN/checkpoints/step-N with a manifest and safetensors files
// (docs/formats/training-checkpoint.md). No byte is used before its hash was found right.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/core/tensor.h"
#include "tephra/io/manifest.h"

namespace tephra {

class Checkpoint {
 public:
  // Reads the manifest and opens the files; a missing file or one of a wrong size is Fault::data.
  static Checkpoint open(const Path& folder);

  const Path& folder() const { return folder_; }
  int64_t step() const { return manifest_.step; }
  const Json& state() const { return manifest_.state; }
  const std::vector<ManifestTensor>& tensors() const { return manifest_.tensors; }
  const std::vector<ManifestFile>& files() const { return manifest_.files; }
  bool contains(std::string_view name) const { return index_.contains(std::string(name)); }
  const ManifestTensor& tensor(std::string_view name) const;  // Fault::data, with the nearest name
  int64_t bytes() const;                                      // of all files

  // Reads every byte, on all threads. What is wrong, one sentence each, at most `max_problems`:
  // file, tensor, rows, expected and found hash.
  std::vector<std::string> problems(size_t max_problems = 100) const;

  // Fills `to`, which has the tensor's shape and dtype. Pieces that problems() has not read yet are
  // checked here; on a wrong hash `to` holds what was read.
  void load_into(std::string_view name, const Tensor& to) const;
  Tensor load(std::string_view name, Purpose purpose = Purpose::workspace) const;
  // Rows [first_row, first_row + to.rows()) of the tensor, wherever their pieces are cut.
  void load_rows(std::string_view name, int64_t first_row, const Tensor& to) const;

 private:
  const FileReader& file(const std::string& name) const { return *readers_.at(name); }
  std::string where(const ManifestTensor& tensor, const RowPiece& piece) const;
  void check_piece(const ManifestTensor& tensor, const RowPiece& piece) const;
  void check_header(const ManifestFile& file) const;
  void read_overlap(const ManifestTensor& tensor, const RowPiece& piece, int64_t first_row,
                    const Tensor& to) const;

  Path folder_;
  Manifest manifest_;
  std::unordered_map<std::string, size_t> index_;
  std::map<std::string, std::unique_ptr<FileReader>> readers_;
  mutable bool verified_ = false;  // problems() has read everything and found nothing
};

struct CheckpointInfo {
  int64_t step = 0;
  Path folder;
};

Path checkpoints_folder(const Path& run_dir);

// Those with a manifest, oldest first; nothing is read.
std::vector<CheckpointInfo> list_checkpoints(const Path& run_dir);

// Folders that are named like a checkpoint but have no manifest: a save writes it before the folder
// gets its name, so it was lost later. Oldest first.
std::vector<CheckpointInfo> list_without_manifest(const Path& run_dir);

// The newest checkpoint of which every byte is right. A bad one is warned about, with what is wrong
// in which file, and the one before it is tried. Nothing when there is none at all; Fault::data
// when none is good.
std::optional<Checkpoint> open_newest(const Path& run_dir);

// A checkpoint by name: a step-N, of which every byte must be right (else Fault::data), or a run
// folder, of which the newest good one is taken. Fault::usage when the path is neither.
Checkpoint open_named(const Path& path);

// A run that goes on from `step` leaves its later checkpoints behind: they become
// step-N.set-aside, which is no checkpoint, so that no later start takes them for its own.
// Returns how many.
int64_t set_aside_after(const Path& run_dir, int64_t step);

}  // namespace tephra

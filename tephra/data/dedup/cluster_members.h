// SPDX-License-Identifier: Apache-2.0
// The documents that share a cluster with another one, and the sets of shingles by which they are
// compared.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "tephra/data/dedup/signature_files.h"
#include "tephra/data/dedup/survivors.h"

namespace tephra {

struct ClusterMember {
  Member member;
  uint32_t cluster = 0;  // the smallest document of it
  uint32_t file = 0;
  uint32_t row = 0;
};

// In the order of documents. `source_of` gives the number of each file's source.
std::vector<ClusterMember> find_members(const SignatureFiles& signatures, UnionFind& sets,
                                        std::span<const uint32_t> source_of);

// The members of one file.
std::span<const ClusterMember> members_of(std::span<const ClusterMember> members, size_t file);
// The one of that row, or null.
const ClusterMember* find_row(std::span<const ClusterMember> of_file, int64_t row);

// Hashes kept of a document; two longer ones are compared by an estimate with an error near 0.01.
inline constexpr size_t kSetLimit = 2048;

// Reads the members once more and keeps their ids, and their sets where they are to be compared.
struct MemberReading {
  SignaturePreset preset;
  std::string text_field;
  bool with_sets = true;
};
StageRun write_members(std::span<const CorpusFile> files, std::span<const ClusterMember> members,
                       const MemberReading& reading, StageSettings settings);

// The id of each member, read from disk as it is asked for. Any thread may ask.
class MemberIds {
 public:
  MemberIds(std::span<const CorpusFile> files, std::span<const ClusterMember> members,
            const Path& folder);

  std::string_view operator[](size_t member) const { return ids_[member]; }

 private:
  std::vector<std::shared_ptr<MappedFile>> maps_;
  std::vector<std::string_view> ids_;
};

// Read from disk as they are asked for; of what was read about `memory_bytes` stay in memory. Any
// thread may ask.
class ShingleSets {
 public:
  ShingleSets(std::span<const CorpusFile> files, std::span<const ClusterMember> members,
              const Path& folder, int64_t memory_bytes);

  std::span<const uint64_t> operator[](size_t member) const {
    const std::span<const uint64_t> set = sets_[member];
    touch(static_cast<int64_t>(set.size_bytes()));
    return set;
  }

 private:
  void touch(int64_t bytes) const;

  int64_t memory_bytes_;
  std::vector<std::shared_ptr<MappedFile>> maps_;
  std::vector<std::span<const uint64_t>> sets_;
  mutable std::atomic<int64_t> touched_{0};
};

}  // namespace tephra

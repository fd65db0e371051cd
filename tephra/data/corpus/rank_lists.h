// SPDX-License-Identifier: Apache-2.0
// Lists that the ranks of one run give each other through a folder. Each run has a folder of its
// own in it, so nothing that a killed one left is taken for a list of this one.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "tephra/data/corpus/ranks.h"

namespace tephra {

class RankLists {
 public:
  // The first rank takes away what earlier runs left.
  RankLists(const Path& folder, const Shard& shard, Ranks& ranks);

  const Path& folder() const { return folder_; }  // of this run
  const Shard& shard() const { return shard_; }
  Ranks& ranks() const { return ranks_; }

  // Once for a name. Fault::data when the disk is full.
  template <class T>
  void give(std::string_view name, const std::vector<T>& list) const {
    static_assert(std::is_trivially_copyable_v<T>);
    write(name, std::as_bytes(std::span(list)));
  }

  // After all have met. Fault::data when the list is cut or damaged.
  template <class T>
  std::vector<T> take(std::string_view name, int64_t rank) const {
    const FileReader file(path(name, rank));
    std::vector<T> list(bytes_in(file) / sizeof(T));
    read(file, name, rank, std::as_writable_bytes(std::span(list)));
    return list;
  }

 private:
  struct Footer {
    uint64_t list = 0, bytes = 0, hash = 0;
  };

  Path path(std::string_view name, int64_t rank) const;
  uint64_t mark(std::string_view name, int64_t rank) const;
  void write(std::string_view name, std::span<const std::byte> bytes) const;
  static size_t bytes_in(const FileReader& file);
  void read(const FileReader& file, std::string_view name, int64_t rank,
            std::span<std::byte> to) const;

  Path folder_;
  Shard shard_;
  Ranks& ranks_;
};

}  // namespace tephra

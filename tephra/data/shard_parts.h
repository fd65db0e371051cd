// SPDX-License-Identifier: Apache-2.0
// A token shard that several processes make: each the tokens of neighbouring files as a shard of
// its own below PREFIX.parts/, but for the first, whose files are the beginning of the whole. Who
// has that appends the others in order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/data/shard_record.h"

namespace tephra {

class ShardParts {
 public:
  static Path folder(const Path& prefix);

  // Of the files from `from` on, about the same number of bytes each.
  ShardParts(std::span<const Path> files, const Path& prefix, size_t from, int64_t count);

  // Whose plan is there; nothing when there is none.
  static std::optional<ShardTold> told(const Path& prefix);
  // That plan, of one whose it is.
  static std::optional<ShardParts> read(std::span<const Path> files, const Path& prefix);
  // The plan that processes agree on: the one that is there, or this one, also in the place of one
  // for another number of parts when `replace`. Parts that are there stay, and their records tell
  // what they hold. Fault::usage when another command has its plan there.
  ShardParts agree(const ShardRecord& whole, bool replace) const;

  int64_t count() const { return count_; }
  size_t begin(int64_t part) const { return begins_[static_cast<size_t>(part)]; }
  size_t end(int64_t part) const { return begins_[static_cast<size_t>(part) + 1]; }
  Path path(int64_t part) const;  // its prefix
  std::span<const Path> files(int64_t part) const {
    return files_.subspan(begin(part), end(part) - begin(part));
  }

 private:
  std::span<const Path> files_;
  Path prefix_;
  size_t from_;
  int64_t count_;
  std::vector<size_t> begins_;  // and where the last one ends
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/rank_lists.h"

#include "tephra/base/error.h"
#include "tephra/base/format.h"
#include "tephra/base/hash.h"

namespace tephra {

RankLists::RankLists(const Path& folder, const Shard& shard, Ranks& ranks)
    : folder_(folder / ranks.run()), shard_(shard), ranks_(ranks) {
  make_writable_folder(folder_);
  if (!ranks.first()) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path() != folder_) std::filesystem::remove_all(entry.path());
  }
}

Path RankLists::path(std::string_view name, int64_t rank) const {
  return folder_ / format("{}-{}.list", name, rank);
}

// By which a file is known as the one that is awaited.
uint64_t RankLists::mark(std::string_view name, int64_t rank) const {
  return xxh3(format("{}: {} of {} of {}", ranks_.run(), name, rank, shard_.count));
}

void RankLists::write(std::string_view name, std::span<const std::byte> bytes) const {
  const Footer footer{mark(name, shard_.index), bytes.size(), xxh3(bytes)};
  AtomicFile file(path(name, shard_.index));
  file.write(bytes);
  file.write(std::as_bytes(std::span(&footer, 1)));
  file.commit();
}

size_t RankLists::bytes_in(const FileReader& file) {
  require_data(file.size() >= static_cast<int64_t>(sizeof(Footer)), "{}: is cut: it has {} bytes",
               file.path().string(), file.size());
  return static_cast<size_t>(file.size()) - sizeof(Footer);
}

void RankLists::read(const FileReader& file, std::string_view name, int64_t rank,
                     std::span<std::byte> to) const {
  Footer footer;
  const size_t bytes = bytes_in(file);
  file.read(static_cast<int64_t>(bytes), std::as_writable_bytes(std::span(&footer, 1)));
  require_data(footer.list == mark(name, rank) && footer.bytes == bytes && to.size() == bytes,
               "{}: is cut, or not what rank {} wrote in this run", file.path().string(), rank);
  file.read(0, to);
  require_data(xxh3(to) == footer.hash, "{}: is damaged", file.path().string());
}

}  // namespace tephra

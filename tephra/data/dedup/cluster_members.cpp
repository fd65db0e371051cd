// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/cluster_members.h"

#include <algorithm>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/data/json_line.h"

namespace tephra {
namespace {

constexpr const char* kSets = "sets";
constexpr const char* kIds = "ids";
constexpr const char* kMembersEnding = ".bin";
constexpr int64_t kPageBytes = 4096, kLeastSetsBytes = int64_t{1} << 20;

}  // namespace

std::vector<ClusterMember> find_members(const SignatureFiles& signatures, UnionFind& sets,
                                        std::span<const uint32_t> source_of) {
  const size_t documents = signatures.documents();
  std::vector<bool> shared(documents);  // is a root with more than itself
  for (uint32_t d = 0; d < documents; ++d) {
    if (const uint32_t root = sets.root(d); root != d) shared[root] = true;
  }
  std::vector<ClusterMember> members;
  for (size_t file = 0; file < source_of.size(); ++file) {
    std::vector<DocumentRecord> records;
    for (uint32_t d = signatures.first(file); d < signatures.first(file + 1); ++d) {
      const uint32_t root = sets.root(d);
      if (root == d && !shared[d]) continue;
      if (records.empty()) records = signatures.records(file);
      const DocumentRecord& record = records[d - signatures.first(file)];
      members.push_back({{d, source_of[file], record.bytes, record.score},
                         root,
                         static_cast<uint32_t>(file),
                         record.row});
    }
  }
  return members;
}

std::span<const ClusterMember> members_of(std::span<const ClusterMember> members, size_t file) {
  const auto [begin, end] = std::equal_range(
      members.begin(), members.end(), ClusterMember{{}, 0, static_cast<uint32_t>(file), 0},
      [](const ClusterMember& a, const ClusterMember& b) { return a.file < b.file; });
  return {begin, end};
}

const ClusterMember* find_row(std::span<const ClusterMember> of_file, int64_t row) {
  const auto found =
      std::lower_bound(of_file.begin(), of_file.end(), row,
                       [](const ClusterMember& member, int64_t r) { return member.row < r; });
  return found != of_file.end() && found->row == row ? &*found : nullptr;
}

StageRun write_members(std::span<const CorpusFile> files, std::span<const ClusterMember> members,
                       const MemberReading& reading, StageSettings settings) {
  settings.what = "compare";
  settings.inner = true;
  settings.streams = {{kIds, kMembersEnding, StreamCoding::plain}};
  if (reading.with_sets) settings.streams.push_back({kSets, kMembersEnding, StreamCoding::plain});
  settings.settings =
      format("members {} {} {}", reading.preset.name, reading.text_field, reading.with_sets);
  return run_stage(files, settings, [&](const CorpusPiece& piece, PieceResult& result) {
    const std::span<const ClusterMember> of_file = members_of(members, piece.file_index);
    if (of_file.empty()) return;
    Signer signer(reading.preset);
    JsonLine parser;
    std::vector<uint64_t> hashes;
    for (const Line& line : piece.lines) {
      if (find_row(of_file, line.row) == nullptr) continue;
      const std::string_view text =
          parser.padded_string_field(piece.window.text(line), reading.text_field);
      const std::string id(parser.find_string(kIdField).value_or(piece.id(line)));
      const auto size = static_cast<uint32_t>(id.size());
      result.streams[0].append(reinterpret_cast<const char*>(&size), sizeof size);
      result.streams[0] += id;
      if (!reading.with_sets) continue;
      signer.shingle_set(text, kSetLimit, hashes);
      const uint64_t count = hashes.size();
      result.streams[1].append(reinterpret_cast<const char*>(&count), sizeof count);
      result.streams[1].append(reinterpret_cast<const char*>(hashes.data()), 8 * hashes.size());
    }
  });
}

MemberIds::MemberIds(std::span<const CorpusFile> files, std::span<const ClusterMember> members,
                     const Path& folder) {
  ids_.reserve(members.size());
  for (size_t file = 0; file < files.size(); ++file) {
    const size_t count = members_of(members, file).size();
    if (count == 0) continue;
    maps_.push_back(MappedFile::open(folder / kIds / (files[file].title() + kMembersEnding)));
    const std::span<const std::byte> bytes = maps_.back()->bytes();
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      uint32_t size = 0;
      const bool begins = at + sizeof size <= bytes.size();
      if (begins) std::memcpy(&size, bytes.data() + at, sizeof size);
      at += sizeof size;
      require_data(begins && at + size <= bytes.size(),
                   "{}: ends before its last id; remove the output folder",
                   maps_.back()->path().string());
      ids_.emplace_back(reinterpret_cast<const char*>(bytes.data()) + at, size);
      at += size;
    }
    maps_.back()->release(bytes);
  }
}

ShingleSets::ShingleSets(std::span<const CorpusFile> files, std::span<const ClusterMember> members,
                         const Path& folder, int64_t memory_bytes)
    : memory_bytes_(std::max(memory_bytes, kLeastSetsBytes)) {
  sets_.reserve(members.size());
  for (size_t file = 0; file < files.size(); ++file) {
    const size_t count = members_of(members, file).size();
    if (count == 0) continue;
    maps_.push_back(MappedFile::open(folder / kSets / (files[file].title() + kMembersEnding)));
    const std::span<const std::byte> bytes = maps_.back()->bytes();
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      uint64_t size = 0;
      require_data(at + 8 <= bytes.size(), "{}: ends before its last set; remove the output folder",
                   maps_.back()->path().string());
      std::memcpy(&size, bytes.data() + at, 8);
      require_data(size <= kSetLimit && at + 8 + 8 * size <= bytes.size(),
                   "{}: is damaged; remove the output folder", maps_.back()->path().string());
      sets_.emplace_back(reinterpret_cast<const uint64_t*>(bytes.data() + at + 8), size);
      at += 8 + 8 * size;
      touch(static_cast<int64_t>(8 + 8 * size));
    }
  }
}

// The pages of files that were read count as this process's until it lets go of them.
void ShingleSets::touch(int64_t bytes) const {
  // A page or two are read around each.
  if ((touched_ += bytes + kPageBytes) <= memory_bytes_) return;
  touched_ = 0;
  for (const auto& map : maps_) map->release(map->bytes());
}

}  // namespace tephra

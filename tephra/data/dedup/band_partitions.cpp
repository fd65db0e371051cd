// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/band_partitions.h"

#include <algorithm>

#include "tephra/base/error.h"

namespace tephra {
namespace {

constexpr int64_t kLeastBuffer = 4096, kMostBuffer = int64_t{1} << 20;
constexpr size_t kMostOpen = 256;  // files: a process may often hold no more than 1024

}  // namespace

BandPartitions::BandPartitions(const Path& folder, size_t bands, size_t ranges,
                               int64_t buffer_bytes)
    : folder_(folder), ranges_(ranges), parts_(bands * ranges) {
  const int64_t each =
      std::clamp(buffer_bytes / static_cast<int64_t>(parts_.size()), kLeastBuffer, kMostBuffer);
  capacity_ = static_cast<size_t>(each) / sizeof(BandRecord);
  std::filesystem::remove_all(folder_);
  make_writable_folder(folder_);
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].path = folder_ / format("{}.bin", i);
    parts_[i].buffer.reserve(capacity_);
  }
}

BandPartitions::~BandPartitions() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

// Files that are many are opened each time.
void BandPartitions::write(Part& part) const {
  if (!part.file.is_open()) {
    part.file.rdbuf()->pubsetbuf(nullptr, 0);  // it has one
    part.file.open(part.path, std::ios::binary | std::ios::app);
  }
  part.file.write(reinterpret_cast<const char*>(part.buffer.data()),
                  static_cast<std::streamsize>(part.buffer.size() * sizeof(BandRecord)));
  if (parts_.size() > kMostOpen) part.file.close();
  require_data(part.file.good(), "{}: cannot be written; is the disk full?", part.path.string());
  part.count += part.buffer.size();
  part.buffer.clear();
}

void BandPartitions::flush() {
  for (Part& part : parts_) {
    if (!part.buffer.empty()) write(part);
    release(part.buffer);
    if (part.file.is_open()) part.file.close();
    require_data(part.file.good(), "{}: cannot be written; is the disk full?", part.path.string());
  }
}

void BandPartitions::read(size_t part, std::vector<BandRecord>& to) const {
  resize_exactly(to, parts_[part].count);
  if (to.empty()) return;
  FileReader(parts_[part].path).read(0, std::as_writable_bytes(std::span(to)));
}

}  // namespace tephra

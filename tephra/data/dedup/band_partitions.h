// SPDX-License-Identifier: Apache-2.0
// Records of bands spread over files by band and range of keys, for when they do not fit into
// memory: each file is then joined on its own, so that everything is written and read once.
#pragma once

#include <fstream>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/data/dedup/band_join.h"

namespace tephra {

class BandPartitions {
 public:
  // `ranges` files a band, in a folder that is emptied and goes with this object. Buffers take
  // about `buffer_bytes` in all.
  BandPartitions(const Path& folder, size_t bands, size_t ranges, int64_t buffer_bytes);
  ~BandPartitions();
  BandPartitions(const BandPartitions&) = delete;
  BandPartitions& operator=(const BandPartitions&) = delete;

  size_t size() const { return parts_.size(); }

  void add(size_t band, const BandRecord& record) {
    const auto range = static_cast<size_t>(
        static_cast<unsigned __int128>(record.key) * static_cast<uint64_t>(ranges_) >> 64);
    Part& part = parts_[band * ranges_ + range];
    part.buffer.push_back(record);
    if (part.buffer.size() == capacity_) write(part);
  }
  void flush();  // after the last record; Fault::data when the disk is full

  // Replaces `to` by the records of a file, in the order they came.
  void read(size_t part, std::vector<BandRecord>& to) const;

 private:
  struct Part {
    Path path;
    std::vector<BandRecord> buffer;
    size_t count = 0;  // in the file
    std::ofstream file;
  };
  void write(Part& part) const;

  Path folder_;
  size_t ranges_;
  size_t capacity_;
  std::vector<Part> parts_;
};

}  // namespace tephra

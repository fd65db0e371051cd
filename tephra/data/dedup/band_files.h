// SPDX-License-Identifier: Apache-2.0
// Records of bands spread over files by ranges of their keys: each rank joins the range that is
// its own, and of that as much at a time as fits into memory. All is written once and read once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tephra/base/append_file.h"
#include "tephra/base/files.h"
#include "tephra/data/dedup/band_join.h"

namespace tephra {

// The whole range of keys is cut into ranks * ranges equal ones.
struct BandPlan {
  Path folder;
  std::string run;    // of which the files are; those of another one are refused
  size_t ranks = 1;   // that write and read: one file for each pair
  size_t ranges = 1;  // of each rank
  size_t bands = 1;

  // What is read at once: one range of one band.
  size_t parts() const { return bands * ranges; }
  size_t part(size_t range, size_t band) const { return band * ranges + range % ranges; }
  size_t range_of(uint64_t key) const {
    return static_cast<size_t>(static_cast<unsigned __int128>(key) * (ranks * ranges) >> 64);
  }
  Path path(size_t from, size_t to) const;
};

// What one rank writes. Goes with its files when it was not finished.
class BandSpread {
 public:
  // Buffers take about `buffer_bytes` in all.
  BandSpread(BandPlan plan, size_t from, int64_t buffer_bytes);
  ~BandSpread();
  BandSpread(const BandSpread&) = delete;
  BandSpread& operator=(const BandSpread&) = delete;

  void add(size_t band, const BandRecord& record) {
    const size_t range = plan_.range_of(record.key);
    std::vector<BandRecord>& buffer = buffers_[range * plan_.bands + band];
    buffer.push_back(record);
    if (buffer.size() == capacity_) write(range, band);
  }
  void finish();  // after the last record; Fault::data when the disk is full

 private:
  struct Chunk {  // of records of one part, as they lie in a file
    uint32_t part = 0, records = 0;
    uint64_t hash = 0;
  };
  struct Footer {  // after the chunks and the list of them
    uint64_t plan = 0, chunks = 0, records = 0, hash = 0;
  };
  struct Output {
    std::unique_ptr<AppendFile> file;
    std::vector<Chunk> chunks;
    int64_t records = 0;
  };
  friend class BandShare;

  void write(size_t range, size_t band);
  void append(size_t to, int64_t at, std::string_view bytes);

  BandPlan plan_;
  size_t from_;
  size_t capacity_;
  std::vector<std::vector<BandRecord>> buffers_;  // by range and band
  std::vector<Output> outputs_;                   // by the rank that reads them
  bool finished_ = false;
};

// What all ranks wrote for one of them. A file that is cut, damaged or of another run is
// Fault::data.
class BandShare {
 public:
  BandShare(BandPlan plan, size_t to);

  int64_t records() const { return records_; }
  // Replaces `to` by the records of a part, in the order of who wrote them.
  void read(size_t part, std::vector<BandRecord>& to) const;

 private:
  struct Piece {
    size_t from;
    int64_t offset;
    uint32_t records;
    uint64_t hash;
  };
  void read_footer(size_t from);

  BandPlan plan_;
  size_t to_;
  int64_t records_ = 0;
  std::vector<std::vector<Piece>> parts_;
};

}  // namespace tephra

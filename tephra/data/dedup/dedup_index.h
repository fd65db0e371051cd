// SPDX-License-Identifier: Apache-2.0
// Documents of earlier runs on disk, to compare new ones with: band keys, ids and sketches, in
// segments that are added and never changed (docs/formats/dedup-index.md).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/data/dedup/band_join.h"
#include "tephra/data/dedup/bloom_filter.h"
#include "tephra/data/dedup/index_manifest.h"

namespace tephra {

class DedupIndex {
 public:
  // All files of these segments are read once and held to their hashes. Fault::data.
  DedupIndex(const Path& folder, IndexManifest manifest);

  const IndexManifest& manifest() const { return manifest_; }
  size_t segments() const { return segments_.size(); }

  // Sorted by key, then document.
  std::span<const BandRecord> band(size_t segment, int64_t band) const;
  BloomFilter filter(size_t segment, int64_t band) const;

  std::string_view id(size_t segment, uint32_t document) const;
  std::vector<uint32_t> sketch(size_t segment, uint32_t document) const;

 private:
  struct Segment {
    std::shared_ptr<MappedFile> bands, documents;
  };

  std::string_view document(size_t segment, uint32_t document) const;

  Path folder_;
  IndexManifest manifest_;
  std::vector<Segment> segments_;
};

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// What an index of documents is made of: its signatures and its segments, as index.json says.
#pragma once

#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/data/dedup/bloom_filter.h"
#include "tephra/data/dedup/signer.h"

namespace tephra {

enum class IndexKind {
  full,   // names the document that a new one resembles, and compares with it
  bloom,  // knows only that a band was seen
};

struct IndexSegment {
  std::string name;
  int64_t documents = 0;
  BloomShape bloom;             // of each band, of IndexKind::bloom
  uint64_t bands_hash = 0;      // of bands.bin or bloom.bin
  uint64_t documents_hash = 0;  // of documents.bin, of IndexKind::full
};

// What index.json says.
struct IndexManifest {
  IndexKind kind = IndexKind::full;
  std::string preset;
  int64_t bands = 0, rows = 0, shingle = 0;
  double bloom_rate = 0;  // share of new documents that each segment wrongly claims
  std::vector<IndexSegment> segments;

  Json to_json() const;
  static IndexManifest read(
      const Path& path);  // Fault::data when it is none, or of another version
};

inline constexpr const char* kIndexFile = "index.json";
// Of a segment: of a full index the first two, of a bloom one the third.
inline constexpr const char* kBandsFile = "bands.bin";
inline constexpr const char* kDocumentsFile = "documents.bin";
inline constexpr const char* kBloomFile = "bloom.bin";

// Fault::usage unless the index is made with these signatures.
void check_index(const IndexManifest& manifest, const SignaturePreset& preset, const Path& folder);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// What an index keeps of a document's text to compare others with it: the smallest hashes of its
// shingles, 32 bits of each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/data/dedup/signer.h"

namespace tephra {

// Of more shingles, the Jaccard similarity is an estimate with a standard error of at most 0.022
// (half of 1 / sqrt(512)); else it is exact but for one wrong match in about 2^32 / 512.
inline constexpr size_t kSketchHashes = 512;

// Sorted.
void make_sketch(Signer& signer, std::string_view text, std::vector<uint32_t>& sketch);
double sketch_similarity(std::span<const uint32_t> a, std::span<const uint32_t> b);

// Sketches with the ids of their documents, one after another.
void append_sketch(std::string& out, std::string_view id, std::span<const uint32_t> sketch);

struct DocumentSketch {
  std::string_view id;
  std::vector<uint32_t> hashes;
};
// Takes the first one off `bytes`; Fault::data with `where` when it is cut off.
DocumentSketch take_sketch(std::string_view& bytes, const std::string& where);

}  // namespace tephra

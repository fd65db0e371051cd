// SPDX-License-Identifier: Apache-2.0
// The manifest of a training checkpoint: which tensors there are, where the rows of each lie in
// which file, and what they hash to (docs/formats/training-checkpoint.md). It knows tensors, not
// who wrote them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/core/dtype.h"
#include "tephra/core/shape.h"

namespace tephra {

inline constexpr const char* kManifestName = "manifest.json";

// Rows [first_row, last_row) of a tensor, dense, in one file.
struct RowPiece {
  int64_t first_row = 0;
  int64_t last_row = 0;
  std::string file;
  int64_t offset = 0;  // of its first byte in the file
  uint64_t hash = 0;   // XXH3 of its bytes
};

struct ManifestTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<RowPiece> pieces;  // in the order of their rows, which they cover

  int64_t row_bytes() const { return shape.cols() * size_of(dtype); }
  int64_t bytes() const { return shape.numel() * size_of(dtype); }
};

// What is not in a piece, the header, is hashed by itself, so that every byte of a file is.
struct ManifestFile {
  std::string name;
  int64_t bytes = 0;
  int64_t header_bytes = 0;
  uint64_t header_hash = 0;
};

struct Manifest {
  int64_t step = 0;
  Json state;
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;
};

// The first line holds the hash of all that follows it.
std::string manifest_text(const Manifest& manifest);

// Believes nothing: Fault::data that says what is wrong where.
Manifest parse_manifest(std::string_view text, const std::string& where);

}  // namespace tephra

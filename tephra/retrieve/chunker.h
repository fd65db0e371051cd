// SPDX-License-Identifier: Apache-2.0
// Cuts a document into chunks, the units that are ranked: sentences, lines, or runs of words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tephra/base/function_ref.h"

namespace tephra {

enum class ChunkKind : uint32_t {
  automatic,  // lines where a document looks like a list of lines, else sentences
  sentences,
  lines,
  fixed,  // runs of `words` words
  whole,  // a document is one chunk
};

// "auto", "sentences", "lines", "fixed", "whole". Fault::usage with the names otherwise.
ChunkKind parse_chunk_kind(std::string_view name);
std::string to_text(ChunkKind kind);

struct ChunkOptions {
  ChunkKind kind = ChunkKind::automatic;
  uint32_t words = 64;  // of a fixed chunk

  bool operator==(const ChunkOptions&) const = default;
};

// A longer line is refused: it is no line of a list. A sentence is cut at a space before that.
constexpr size_t kMaxLineBytes = size_t{1} << 20;
constexpr size_t kMaxSentenceBytes = 2000;

// Calls `chunk` with each non-empty chunk, in order, without blanks at its ends. `where` names the
// document in errors.
void cut_chunks(std::string_view text, const ChunkOptions& options, const std::string& where,
                FunctionRef<void(std::string_view chunk)> chunk);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Where a text repeats itself: windows of a fixed number of bytes that stand somewhere else, too,
// found by a suffix array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/data/corpus/json_text.h"

namespace tephra {

// One bit for each byte of a corpus: a window that begins here is to be removed.
class WindowMarks {
 public:
  explicit WindowMarks(size_t bytes) : words_((bytes + 63) / 64) {}

  void mark(size_t at);  // from any thread
  // The first mark in [from, to), or `to`.
  size_t next(size_t from, size_t to) const;

  std::span<uint64_t> words() { return words_; }
  std::span<const uint64_t> words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
};

// Stands between documents; no byte of UTF-8.
inline constexpr char kDocumentEnd = '\xff';

// Neighbouring documents of a corpus, with kDocumentEnd after each.
struct TextChunk {
  size_t begin = 0;  // of its first byte in the corpus
  size_t bytes = 0;
};

struct RepeatRule {
  size_t least = 200;  // bytes of a window
  bool keep_one = true;
};

// Marks windows of the text, which is the first chunk and then the second one (that may be empty)
// and which is changed at its end. Keeping one: those of which an equal one begins at least `least`
// bytes earlier. Else: all that are found twice without overlapping. Needs four bytes for each of
// the text, which must be below 2 GiB.
void mark_repeats(std::string& text, TextChunk first, TextChunk second, const RepeatRule& rule,
                  WindowMarks& marks);

// What to cut out of a document that begins at `begin` in the corpus: the union of its marked
// windows, without cutting characters, nor words where those are written apart.
std::vector<ByteRange> marked_ranges(const WindowMarks& marks, size_t begin, std::string_view text,
                                     size_t least);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Makes an index from documents, or from an index and more documents: only the new text is read
// word by word, the rest is copied. The result does not depend on how the documents were grouped
// into additions.
#pragma once

#include <string>
#include <vector>

#include "tephra/retrieve/index.h"

namespace tephra {

class IndexBuilder {
 public:
  explicit IndexBuilder(const ChunkOptions& options);
  explicit IndexBuilder(const Index& base);

  // A document without a word adds nothing. Text that is not UTF-8 is a Fault::data that names the
  // document and the byte.
  void add(std::string_view name, std::string_view text);

  int64_t chunks() const { return static_cast<int64_t>(d_.chunk_begin.size()); }

  // Fault::data when there is no chunk at all. The builder is empty afterwards.
  Index finish();

 private:
  // What the arrays of an index that owns them stand on.
  struct Data {
    std::vector<char> text, names;
    std::vector<uint64_t> chunk_begin, chunk_terms, term_hash, term_place, term_postings,
        document_names;
    std::vector<uint32_t> chunk_bytes, chunk_words, term_of_chunk, term_slots, chunk_of_term,
        document_chunks;
    std::vector<uint8_t> count_of_chunk, count_of_term;
    std::vector<float> chunk_norm, chunk_centrality;
  };
  // A place of the table of terms, with what the chunk at hand knows of the term.
  struct Slot {
    uint64_t hash = 0;
    uint32_t term = kNoTerm;
    bool name = false;            // no occurrence so far was in lower case
    uint32_t chunk = 0xffffffff;  // the last one that held it
    uint64_t pair = 0;            // where its count lies in count_of_chunk
  };

  void add_chunk(size_t begin, size_t end);
  void add_term(uint64_t hash, uint64_t place);  // `place` with its kind
  void grow_slots();
  void place_slot(const Slot& slot);
  void make_postings();
  void make_norms();
  void make_term_slots();

  ChunkOptions options_;
  Data d_;
  std::vector<Slot> slots_;
};

}  // namespace tephra

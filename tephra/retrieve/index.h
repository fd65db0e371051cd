// SPDX-License-Identifier: Apache-2.0
// The index of a corpus: its text, the chunks of it, the terms of each chunk, and the chunks of
// each term. All of it lies in flat arrays, in memory or in a mapped file (index_file.h), and is
// never changed: IndexBuilder makes a new one from an old one and more documents.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "tephra/retrieve/chunker.h"

namespace tephra {

// C chunks, T terms, D documents, E pairs of a chunk and a term that it holds.
struct IndexArrays {
  std::span<const char> text;
  std::span<const uint64_t> chunk_begin;    // [C] first byte in text
  std::span<const uint32_t> chunk_bytes;    // [C]
  std::span<const uint32_t> chunk_words;    // [C] stop words included
  std::span<const float> chunk_norm;        // [C] of its TF-IDF vector
  std::span<const float> chunk_centrality;  // [C] PageRank over all chunks, plain edges; sums to 1
  std::span<const uint64_t> chunk_terms;    // [C + 1] where a chunk's terms begin
  std::span<const uint32_t> term_of_chunk;  // [E] in order of first appearance in the chunk
  std::span<const uint8_t> count_of_chunk;  // [E] times it appears there, 255 at most
  std::span<const uint64_t> term_hash;      // [T] in order of first appearance in the corpus
  std::span<const uint64_t>
      term_place;  // [T] where it first stands in text; with its kind, kName or kNamePair
  std::span<const uint32_t> term_slots;       // [2^k] open addressing by hash; kNoTerm: empty
  std::span<const uint64_t> term_postings;    // [T + 1] where a term's chunks begin
  std::span<const uint32_t> chunk_of_term;    // [E] ascending
  std::span<const uint8_t> count_of_term;     // [E]
  std::span<const uint32_t> document_chunks;  // [D + 1] first chunk of each document
  std::span<const uint64_t> document_names;   // [D + 1] where its name begins in names
  std::span<const char> names;
};

constexpr uint32_t kNoTerm = 0xffffffff;

// Names lead from one passage to the next better than other words do.
enum class TermKind {
  word,
  name,       // a word that begins with a capital wherever it stands
  name_pair,  // two capitalised words in a row: a term of its own, beside its words
};
constexpr uint64_t kNamePair = uint64_t{1} << 63;
constexpr uint64_t kName = uint64_t{1} << 62;
constexpr uint64_t kPlaceMask = kName - 1;

inline TermKind term_kind(uint64_t place) {
  if ((place & kNamePair) != 0) return TermKind::name_pair;
  return (place & kName) != 0 ? TermKind::name : TermKind::word;
}

uint64_t pair_hash(uint64_t first, uint64_t second);

struct Postings {
  std::span<const uint32_t> chunks;
  std::span<const uint8_t> counts;
};

class Index {
 public:
  Index(std::shared_ptr<const void> owner, const IndexArrays& arrays, const ChunkOptions& options)
      : owner_(std::move(owner)), a_(arrays), options_(options) {}

  const IndexArrays& arrays() const { return a_; }
  const ChunkOptions& chunk_options() const { return options_; }
  int64_t chunks() const { return static_cast<int64_t>(a_.chunk_begin.size()); }
  int64_t terms() const { return static_cast<int64_t>(a_.term_hash.size()); }
  int64_t documents() const { return static_cast<int64_t>(a_.document_chunks.size()) - 1; }
  int64_t words() const;  // of all chunks
  int64_t bytes() const;  // of all arrays

  std::string_view text(uint32_t chunk) const {
    return {a_.text.data() + a_.chunk_begin[chunk], a_.chunk_bytes[chunk]};
  }
  uint32_t document_of(uint32_t chunk) const;
  std::string_view document_name(uint32_t document) const;

  std::optional<uint32_t> find(uint64_t hash) const;
  std::string_view term_text(uint32_t term) const;  // as it first stands in the text
  TermKind kind(uint32_t term) const { return term_kind(a_.term_place[term]); }
  bool is_name_pair(uint32_t term) const { return kind(term) == TermKind::name_pair; }
  Postings postings(uint32_t term) const;
  Postings terms_of(uint32_t chunk) const;  // `chunks` are its terms
  int64_t chunks_with(uint32_t term) const {
    return static_cast<int64_t>(a_.term_postings[term + 1] - a_.term_postings[term]);
  }
  // (log((1 + C) / (1 + chunks_with)) + 1) times the weight of the term's kind.
  float idf(uint32_t term) const;

 private:
  std::shared_ptr<const void> owner_;
  IndexArrays a_;
  ChunkOptions options_;
};

float term_idf(int64_t chunks, int64_t chunks_with, TermKind kind);

// 1 + log(count), for counts from 1 on.
extern const std::array<float, 256> kCountWeights;
inline float count_weight(uint8_t count) { return kCountWeights[count]; }

}  // namespace tephra

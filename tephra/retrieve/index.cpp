// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "tephra/retrieve/words.h"

namespace tephra {
namespace {

constexpr float kNameWeight = 1.5F, kPairWeight = 1;

float kind_weight(TermKind kind) {
  if (kind == TermKind::word) return 1;
  return kind == TermKind::name ? kNameWeight : kPairWeight;
}

}  // namespace

const std::array<float, 256> kCountWeights = [] {
  std::array<float, 256> table{};
  for (size_t i = 1; i < table.size(); ++i) {
    table[i] = static_cast<float>(1 + std::log(static_cast<double>(i)));
  }
  return table;
}();

uint64_t pair_hash(uint64_t first, uint64_t second) {
  const uint64_t h = (first * 3 ^ second) * 0xd6e8feb86659fd93;
  return h ^ h >> 32;
}

float term_idf(int64_t chunks, int64_t chunks_with, TermKind kind) {
  const double idf =
      std::log((1 + static_cast<double>(chunks)) / (1 + static_cast<double>(chunks_with))) + 1;
  return static_cast<float>(idf) * kind_weight(kind);
}

int64_t Index::words() const {
  return std::accumulate(a_.chunk_words.begin(), a_.chunk_words.end(), int64_t{0});
}

int64_t Index::bytes() const {
  const auto size = [](const auto&... spans) { return (spans.size_bytes() + ...); };
  return static_cast<int64_t>(
      size(a_.text, a_.chunk_begin, a_.chunk_bytes, a_.chunk_words, a_.chunk_norm,
           a_.chunk_centrality, a_.chunk_terms, a_.term_of_chunk, a_.count_of_chunk, a_.term_hash,
           a_.term_place, a_.term_slots, a_.term_postings, a_.chunk_of_term, a_.count_of_term,
           a_.document_chunks, a_.document_names, a_.names));
}

uint32_t Index::document_of(uint32_t chunk) const {
  const auto after =
      std::upper_bound(a_.document_chunks.begin(), a_.document_chunks.end() - 1, chunk);
  return static_cast<uint32_t>(after - a_.document_chunks.begin()) - 1;
}

std::string_view Index::document_name(uint32_t document) const {
  const uint64_t begin = a_.document_names[document];
  return {a_.names.data() + begin, a_.document_names[document + 1] - begin};
}

std::optional<uint32_t> Index::find(uint64_t hash) const {
  const size_t mask = a_.term_slots.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const uint32_t term = a_.term_slots[at];
    if (term == kNoTerm) return {};
    if (a_.term_hash[term] == hash) return term;
  }
}

std::string_view Index::term_text(uint32_t term) const {
  const std::string_view text(a_.text.data(), a_.text.size());
  const std::string_view rest = text.substr(a_.term_place[term] & kPlaceMask);
  WordReader reader(rest);
  Word word;
  if (!reader.next(word)) return {};
  if (is_name_pair(term)) reader.next(word);
  return rest.substr(0, word.end);
}

Postings Index::postings(uint32_t term) const {
  const uint64_t begin = a_.term_postings[term], count = a_.term_postings[term + 1] - begin;
  return {a_.chunk_of_term.subspan(begin, count), a_.count_of_term.subspan(begin, count)};
}

Postings Index::terms_of(uint32_t chunk) const {
  const uint64_t begin = a_.chunk_terms[chunk], count = a_.chunk_terms[chunk + 1] - begin;
  return {a_.term_of_chunk.subspan(begin, count), a_.count_of_chunk.subspan(begin, count)};
}

float Index::idf(uint32_t term) const { return term_idf(chunks(), chunks_with(term), kind(term)); }

}  // namespace tephra

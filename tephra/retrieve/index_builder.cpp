// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/index_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/centrality.h"
#include "tephra/retrieve/words.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr size_t kFirstSlots = 1 << 12;
constexpr uint32_t kMaxChunks = 0xfffffff0;
constexpr size_t kMaxChunkBytes = 0xffffffff;  // what chunk_bytes can say

template <class T>
std::vector<T> copied(std::span<const T> values) {
  return {values.begin(), values.end()};
}

}  // namespace

IndexBuilder::IndexBuilder(const ChunkOptions& options) : options_(options), slots_(kFirstSlots) {
  require(options.words >= 1, "chunks: expected at least 1 word in each, got {}", options.words);
  d_.chunk_terms = {0};
  d_.document_chunks = {0};
  d_.document_names = {0};
}

IndexBuilder::IndexBuilder(const Index& base) : options_(base.chunk_options()) {
  const IndexArrays& a = base.arrays();
  d_.text = copied(a.text);
  d_.names = copied(a.names);
  d_.chunk_begin = copied(a.chunk_begin);
  d_.chunk_bytes = copied(a.chunk_bytes);
  d_.chunk_words = copied(a.chunk_words);
  d_.chunk_terms = copied(a.chunk_terms);
  d_.term_of_chunk = copied(a.term_of_chunk);
  d_.count_of_chunk = copied(a.count_of_chunk);
  d_.term_hash = copied(a.term_hash);
  d_.term_place = copied(a.term_place);
  d_.document_chunks = copied(a.document_chunks);
  d_.document_names = copied(a.document_names);
  slots_.resize(std::max(kFirstSlots, std::bit_ceil(2 * d_.term_hash.size() + 1)));
  for (uint32_t t = 0; t < d_.term_hash.size(); ++t) {
    place_slot({d_.term_hash[t], t, (d_.term_place[t] & kName) != 0});
  }
}

void IndexBuilder::place_slot(const Slot& slot) {
  const size_t mask = slots_.size() - 1;
  size_t at = slot.hash & mask;
  while (slots_[at].term != kNoTerm) at = (at + 1) & mask;
  slots_[at] = slot;
}

void IndexBuilder::grow_slots() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.term != kNoTerm) place_slot(slot);
  }
}

void IndexBuilder::add(std::string_view name, std::string_view text) {
  const size_t broken = find_invalid_utf8(text);
  if (broken != std::string_view::npos) {
    require_data(false,
                 "{}: expected UTF-8, got byte {:#04x} at offset {}; convert it first, for example "
                 "with iconv -f latin1 -t utf-8",
                 name, static_cast<unsigned>(static_cast<unsigned char>(text[broken])), broken);
  }
  const size_t before = d_.text.size();
  const auto first = d_.chunk_begin.size();
  d_.text.insert(d_.text.end(), text.begin(), text.end());
  const std::string_view kept(d_.text.data() + before, text.size());
  cut_chunks(kept, options_, std::string(name), [&](std::string_view chunk) {
    const auto begin = static_cast<size_t>(chunk.data() - d_.text.data());
    add_chunk(begin, begin + chunk.size());
  });
  if (d_.chunk_begin.size() == first) {
    d_.text.resize(before);
    return;
  }
  d_.document_chunks.push_back(static_cast<uint32_t>(d_.chunk_begin.size()));
  d_.names.insert(d_.names.end(), name.begin(), name.end());
  d_.document_names.push_back(d_.names.size());
}

void IndexBuilder::add_chunk(size_t begin, size_t end) {
  const std::string_view text(d_.text.data() + begin, end - begin);
  uint32_t words = 0;
  size_t last_end = 0;  // of a capitalised word; 0: there was none right before
  size_t last_begin = 0;
  uint64_t last_hash = 0;
  WordReader reader(text);
  for (Word word; reader.next(word); ++words) {
    const uint64_t hash = stem_hash(word);
    const uint64_t name = word.capital ? kName : 0;
    if (!is_stop_word(word.hash)) add_term(hash, (begin + word.begin) | name);
    if (word.capital && last_end > 0 && word.begin == last_end + 1 && text[last_end] == ' ') {
      add_term(pair_hash(last_hash, hash), (begin + last_begin) | kNamePair);
    }
    last_end = word.capital ? word.end : 0;
    last_begin = word.begin;
    last_hash = hash;
  }
  if (words == 0) return;
  require_data(text.size() <= kMaxChunkBytes,
               "index: expected chunks of at most {} bytes, got one of {}; cut it by --chunk "
               "sentences or fixed",
               kMaxChunkBytes, text.size());
  require_data(d_.chunk_begin.size() < kMaxChunks, "index: expected at most {} chunks in a corpus",
               kMaxChunks);
  d_.chunk_begin.push_back(begin);
  d_.chunk_bytes.push_back(static_cast<uint32_t>(text.size()));
  d_.chunk_words.push_back(words);
  d_.chunk_terms.push_back(d_.term_of_chunk.size());
}

void IndexBuilder::add_term(uint64_t hash, uint64_t place) {
  const auto chunk = static_cast<uint32_t>(d_.chunk_begin.size());
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].term != kNoTerm && slots_[at].hash != hash) at = (at + 1) & mask;
  Slot& slot = slots_[at];
  if (slot.term == kNoTerm) {
    slot.hash = hash;
    slot.term = static_cast<uint32_t>(d_.term_hash.size());
    slot.name = (place & kName) != 0;
    d_.term_hash.push_back(hash);
    d_.term_place.push_back(place);
  }
  if (slot.name && (place & kName) == 0) {
    slot.name = false;
    d_.term_place[slot.term] &= ~kName;
  }
  if (slot.chunk == chunk) {
    uint8_t& count = d_.count_of_chunk[slot.pair];
    if (count < 255) ++count;
    return;
  }
  slot.chunk = chunk;
  slot.pair = d_.term_of_chunk.size();
  d_.term_of_chunk.push_back(slot.term);
  d_.count_of_chunk.push_back(1);
  if (2 * d_.term_hash.size() > slots_.size()) grow_slots();
}

// A counting sort by term: chunks come out ascending.
void IndexBuilder::make_postings() {
  const size_t pairs = d_.term_of_chunk.size();
  d_.term_postings.assign(d_.term_hash.size() + 1, 0);
  for (const uint32_t term : d_.term_of_chunk) ++d_.term_postings[term + 1];
  for (size_t t = 0; t < d_.term_hash.size(); ++t) d_.term_postings[t + 1] += d_.term_postings[t];
  std::vector<uint64_t> next(d_.term_postings.begin(), d_.term_postings.end() - 1);
  d_.chunk_of_term.resize(pairs);
  d_.count_of_term.resize(pairs);
  for (uint32_t c = 0; c < d_.chunk_begin.size(); ++c) {
    for (uint64_t p = d_.chunk_terms[c]; p < d_.chunk_terms[c + 1]; ++p) {
      const uint64_t to = next[d_.term_of_chunk[p]]++;
      d_.chunk_of_term[to] = c;
      d_.count_of_term[to] = d_.count_of_chunk[p];
    }
  }
}

void IndexBuilder::make_norms() {
  std::vector<float> idf(d_.term_hash.size());
  for (size_t t = 0; t < idf.size(); ++t) {
    idf[t] = term_idf(chunks(), static_cast<int64_t>(d_.term_postings[t + 1] - d_.term_postings[t]),
                      term_kind(d_.term_place[t]));
  }
  d_.chunk_norm.resize(d_.chunk_begin.size());
  parallel_for(chunks(), 1 << 12, [&](int64_t begin, int64_t end) {
    for (auto c = static_cast<size_t>(begin); c < static_cast<size_t>(end); ++c) {
      float sum = 0;
      for (uint64_t p = d_.chunk_terms[c]; p < d_.chunk_terms[c + 1]; ++p) {
        const float weight = count_weight(d_.count_of_chunk[p]) * idf[d_.term_of_chunk[p]];
        sum += weight * weight;
      }
      d_.chunk_norm[c] = sum > 0 ? std::sqrt(sum) : 1;
    }
  });
}

void IndexBuilder::make_term_slots() {
  d_.term_slots.assign(std::bit_ceil(2 * d_.term_hash.size() + 1), kNoTerm);
  const size_t mask = d_.term_slots.size() - 1;
  for (uint32_t t = 0; t < d_.term_hash.size(); ++t) {
    size_t at = d_.term_hash[t] & mask;
    while (d_.term_slots[at] != kNoTerm) at = (at + 1) & mask;
    d_.term_slots[at] = t;
  }
}

Index IndexBuilder::finish() {
  require_data(chunks() > 0, "index: expected text, got a corpus without a single word");
  slots_.clear();
  make_postings();
  make_norms();
  make_term_slots();
  const auto data = std::make_shared<Data>(std::move(d_));
  d_ = Data();
  IndexArrays a{.text = data->text,
                .chunk_begin = data->chunk_begin,
                .chunk_bytes = data->chunk_bytes,
                .chunk_words = data->chunk_words,
                .chunk_norm = data->chunk_norm,
                .chunk_centrality = {},
                .chunk_terms = data->chunk_terms,
                .term_of_chunk = data->term_of_chunk,
                .count_of_chunk = data->count_of_chunk,
                .term_hash = data->term_hash,
                .term_place = data->term_place,
                .term_slots = data->term_slots,
                .term_postings = data->term_postings,
                .chunk_of_term = data->chunk_of_term,
                .count_of_term = data->count_of_term,
                .document_chunks = data->document_chunks,
                .document_names = data->document_names,
                .names = data->names};
  data->chunk_centrality = centrality(Index(data, a, options_));
  a.chunk_centrality = data->chunk_centrality;
  return {data, a, options_};
}

}  // namespace tephra

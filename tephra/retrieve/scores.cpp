// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/scores.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tephra/retrieve/words.h"

namespace tephra {
namespace {

constexpr double kK1 = 1.2, kB = 0.75;
constexpr double kFusionOffset = 60;
constexpr double kOtherCase = 0.25;  // of a match whose capital does not match

// Whether a sentence begins at this place.
bool begins_sentence(std::string_view text, size_t at) {
  while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '"' || text[at - 1] == '\n' ||
                    text[at - 1] == '(' || text[at - 1] == '*')) {
    --at;
  }
  if (at == 0) return true;
  const char before = text[at - 1];
  return before == '.' || before == '!' || before == '?' || before == ':';
}

Case case_of(std::string_view text, const Word& word) {
  if (begins_sentence(text, word.begin)) return Case::unknown;
  return word.capital ? Case::capital : Case::lower;
}

std::vector<ScoredChunk> listed(const ChunkSums& sums) {
  std::vector<ScoredChunk> result;
  result.reserve(sums.touched().size());
  for (const uint32_t c : sums.touched()) result.push_back({c, sums[c]});
  return result;
}

bool better(const ScoredChunk& a, const ScoredChunk& b) {
  return a.score != b.score ? a.score > b.score : a.chunk > b.chunk;
}

}  // namespace

void ChunkSums::clear() {
  for (const uint32_t c : touched_) sums_[c] = 0;
  touched_.clear();
}

// A question names things in lower case, too: two words in a row are looked up as a name anyway.
// Rare words weigh more than in a chunk (idf to the power 1.5): they are what is asked about.
QueryVector query_vector(const Index& index, std::string_view question) {
  std::map<uint32_t, int> counts;
  std::map<uint32_t, Case> cases;
  double known = 0, unknown = 0;
  const double unknown_weight = term_idf(index.chunks(), 0, TermKind::word);
  WordReader reader(question);
  uint64_t last = 0;
  for (Word word; reader.next(word);) {
    const uint64_t hash = stem_hash(word);
    if (const auto pair = index.find(pair_hash(last, hash))) ++counts[*pair];
    last = hash;
    if (is_stop_word(word.hash)) continue;
    if (const auto term = index.find(hash)) {
      ++counts[*term];
      known += index.idf(*term);
      // Of a word that is always a name, case says nothing; "iPod" and "12" have none.
      if (index.kind(*term) == TermKind::word) cases[*term] = case_of(question, word);
    } else {
      unknown += unknown_weight;
    }
  }
  QueryVector query;
  double sum = 0;
  for (const auto& [term, count] : counts) {
    const float idf = index.idf(term);
    const float weight =
        count_weight(static_cast<uint8_t>(std::min(count, 255))) * idf * std::sqrt(idf);
    query.terms.push_back({term, weight, cases[term]});
    sum += static_cast<double>(weight) * static_cast<double>(weight);
  }
  for (QueryTerm& t : query.terms) t.weight /= static_cast<float>(std::sqrt(sum));
  query.known = known > 0 ? known / (known + unknown) : 0;
  return query;
}

std::vector<ScoredChunk> cosine_scores(const Index& index, const QueryVector& query) {
  ChunkSums sums(index.chunks());
  for (const QueryTerm& t : query.terms) {
    const Postings p = index.postings(t.term);
    const float scale = t.weight * index.idf(t.term);
    for (size_t i = 0; i < p.chunks.size(); ++i) {
      sums.add(p.chunks[i], scale * count_weight(p.counts[i]));
    }
  }
  std::vector<ScoredChunk> scored = listed(sums);
  for (ScoredChunk& s : scored) s.score /= index.arrays().chunk_norm[s.chunk];
  return scored;
}

double cased_cosine(const Index& index, const QueryVector& query, uint32_t chunk) {
  const std::string_view text = index.text(chunk);
  std::vector<std::pair<int, double>> seen(query.terms.size());  // times, and how well they match
  uint64_t last = 0;
  WordReader reader(text);
  for (Word word; reader.next(word);) {
    const uint64_t hash = stem_hash(word), pair = pair_hash(last, hash);
    last = hash;
    for (size_t i = 0; i < query.terms.size(); ++i) {
      const QueryTerm& t = query.terms[i];
      const uint64_t wanted = index.arrays().term_hash[t.term];
      if (wanted != hash && wanted != pair) continue;
      const Case written = case_of(text, word);
      const bool same =
          t.written == Case::unknown || written == Case::unknown || written == t.written;
      ++seen[i].first;
      seen[i].second += same ? 1 : kOtherCase;
    }
  }
  double sum = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto [times, match] = seen[i];
    if (times == 0) continue;
    const QueryTerm& t = query.terms[i];
    sum += static_cast<double>(t.weight * index.idf(t.term) *
                               count_weight(static_cast<uint8_t>(std::min(times, 255)))) *
           match / times;
  }
  return sum / static_cast<double>(index.arrays().chunk_norm[chunk]);
}

std::vector<ScoredChunk> bm25_scores(const Index& index, const QueryVector& query) {
  const auto chunks = static_cast<double>(index.chunks());
  const double mean = static_cast<double>(index.words()) / chunks;
  ChunkSums sums(index.chunks());
  for (const QueryTerm& t : query.terms) {
    if (index.is_name_pair(t.term)) continue;  // BM25 as everybody has it
    const Postings p = index.postings(t.term);
    const auto with = static_cast<double>(p.chunks.size());
    const double idf = std::log(1 + (chunks - with + 0.5) / (with + 0.5));
    for (size_t i = 0; i < p.chunks.size(); ++i) {
      const double count = p.counts[i];
      const double length = index.arrays().chunk_words[p.chunks[i]] / mean;
      sums.add(p.chunks[i], static_cast<float>(idf * count * (kK1 + 1) /
                                               (count + kK1 * (1 - kB + kB * length))));
    }
  }
  return listed(sums);
}

void keep_best(std::vector<ScoredChunk>& scored, size_t count) {
  if (scored.size() > count) {
    std::nth_element(scored.begin(), scored.begin() + static_cast<int64_t>(count), scored.end(),
                     better);
    scored.resize(count);
  }
  std::sort(scored.begin(), scored.end(), better);
}

std::vector<ScoredChunk> fuse_ranks(const std::vector<ScoredChunk>& a,
                                    const std::vector<ScoredChunk>& b) {
  std::map<uint32_t, double> sums;
  for (const auto* list : {&a, &b}) {
    for (size_t i = 0; i < list->size(); ++i) {
      sums[(*list)[i].chunk] += 1 / (kFusionOffset + 1 + static_cast<double>(i));
    }
  }
  std::vector<ScoredChunk> result;
  for (const auto& [chunk, score] : sums) result.push_back({chunk, score});
  return result;
}

}  // namespace tephra

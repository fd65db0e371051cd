// SPDX-License-Identifier: Apache-2.0
// What chunks score for a question without any graph: the cosine of TF-IDF vectors, and BM25. Both
// are read off the postings of the question's terms.
#pragma once

#include <string>
#include <vector>

#include "tephra/retrieve/index.h"

namespace tephra {

// How a word is written where a sentence does not begin, which is where it tells something.
enum class Case { unknown, lower, capital };

struct QueryTerm {
  uint32_t term = 0;
  float weight = 0;  // of the unit vector
  Case written = Case::unknown;
};

// The question as a vector over the index's terms. Words that the corpus has not are counted, since
// they say how much of the question it can answer.
struct QueryVector {
  std::vector<QueryTerm> terms;  // by term
  double known = 0;              // share of the question's weight that the corpus knows, 0 to 1
};

QueryVector query_vector(const Index& index, std::string_view question);

struct ScoredChunk {
  uint32_t chunk = 0;
  double score = 0;
};

// Sums by chunk; costs what was touched, not what there is.
class ChunkSums {
 public:
  explicit ChunkSums(int64_t chunks) : sums_(static_cast<size_t>(chunks)) {}
  void add(uint32_t chunk, float value) {
    if (sums_[chunk] == 0) touched_.push_back(chunk);
    sums_[chunk] += value;
  }
  float operator[](uint32_t chunk) const { return sums_[chunk]; }
  const std::vector<uint32_t>& touched() const { return touched_; }
  void clear();

 private:
  std::vector<float> sums_;
  std::vector<uint32_t> touched_;
};

// The cosine where words that are written differently count less: an apple is not Apple. Reads the
// chunk's text, so it is for the best of a list.
double cased_cosine(const Index& index, const QueryVector& query, uint32_t chunk);

// All chunks that hold a term of the question.
std::vector<ScoredChunk> cosine_scores(const Index& index, const QueryVector& query);
std::vector<ScoredChunk> bm25_scores(const Index& index, const QueryVector& query);

// The first `count` by score; of equals the later chunk comes first, as the newer word of a story.
void keep_best(std::vector<ScoredChunk>& scored, size_t count);

// Rank fusion: 1 / (60 + rank) of each list, summed. The lists are best first.
std::vector<ScoredChunk> fuse_ranks(const std::vector<ScoredChunk>& a,
                                    const std::vector<ScoredChunk>& b);

}  // namespace tephra

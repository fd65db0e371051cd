// SPDX-License-Identifier: Apache-2.0
// From a question to the passages that a model should read: a mixture of two PageRanks (MixPR,
// arXiv 2412.06078), one that starts at the question and one over the whole corpus.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tephra/retrieve/route.h"
#include "tephra/retrieve/walk.h"

namespace tephra {

enum class RankMethod { mixpr, cosine, bm25 };

struct RetrieveOptions {
  int64_t budget_tokens = 2000;
  int64_t max_chunks = 100;
  int64_t context_chunks = 0;  // before and after each passage, of the same document
  RankMethod method = RankMethod::mixpr;
  QueryRoute route = QueryRoute::automatic;
  WalkOptions walk;
  // Tokens of a text. Without it an estimate: a quarter of its bytes.
  std::function<int64_t(std::string_view)> count_tokens;
};

struct Passage {
  uint32_t chunk = 0;
  double score = 0;  // 0: it stands beside one that was found
  int64_t tokens = 0;
};

struct WordTimes {
  std::string word;
  int64_t times = 0;
  int64_t chunks = 0;
};

struct Retrieved {
  QueryRoute route = QueryRoute::local;
  double local_share = 1;         // of the mixture
  std::vector<Passage> passages;  // in the order of the corpus
  int64_t tokens = 0;
  int64_t left_out = 0;           // ranked chunks that were tried and did not fit the budget
  std::vector<WordTimes> counts;  // for questions about counts: the corpus's most frequent words
};

// All chunks with a score, best first, at most `count`.
std::vector<ScoredChunk> rank_chunks(const Index& index, std::string_view question,
                                     const RetrieveOptions& options, size_t count);

Retrieved retrieve(const Index& index, std::string_view question, const RetrieveOptions& options);

// The passages as a model reads them: under the name of their document, gaps marked with [...].
std::string context_text(const Index& index, const Retrieved& found);

// The most frequent words, of equals the earlier one first; stop words do not count.
std::vector<WordTimes> frequent_words(const Index& index, size_t count);

}  // namespace tephra

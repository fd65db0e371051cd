// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/retrieve.h"

#include <algorithm>
#include <map>

#include "tephra/base/error.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr double kGlobalLocalShare = 0.3;  // what a question about everything still says by itself
constexpr size_t kParts = 32;              // of a corpus, that a global answer draws from in turn
constexpr size_t kFrequentWords = 20;
constexpr int kMisfits = 3;  // passages too long for what is left of a budget, then it is full

struct Ranked {
  QueryRoute route = QueryRoute::local;
  double local_share = 1;
  std::vector<ScoredChunk> chunks;  // best first
};

// Adds the corpus's own ranks, scaled to sum to 1 - local_share like the walk's to local_share.
void mix_in_centrality(const Index& index, double local_share, std::vector<ScoredChunk>& scored) {
  const auto central = index.arrays().chunk_centrality;
  std::vector<double> mixed(central.size());
  for (size_t c = 0; c < central.size(); ++c) {
    mixed[c] = (1 - local_share) * static_cast<double>(central[c]);
  }
  double total = 0;
  for (const ScoredChunk& s : scored) total += s.score;
  for (const ScoredChunk& s : scored) mixed[s.chunk] += local_share * s.score / total;
  scored.clear();
  for (uint32_t c = 0; c < mixed.size(); ++c) scored.push_back({c, mixed[c]});
}

// The best of each part of the corpus in turn, so that an answer about all of it hears all.
void spread(const Index& index, std::vector<ScoredChunk>& scored, size_t count) {
  std::vector<std::vector<ScoredChunk>> parts(kParts);
  for (const ScoredChunk& s : scored) {
    parts[s.chunk * kParts / static_cast<size_t>(index.chunks())].push_back(s);
  }
  scored.clear();
  for (auto& part : parts) keep_best(part, count);
  for (size_t turn = 0; scored.size() < count; ++turn) {
    std::vector<ScoredChunk> of_turn;
    for (const auto& part : parts) {
      if (turn < part.size()) of_turn.push_back(part[turn]);
    }
    if (of_turn.empty()) return;
    keep_best(of_turn, count - scored.size());
    scored.insert(scored.end(), of_turn.begin(), of_turn.end());
  }
}

Ranked ranked(const Index& index, std::string_view asked, const RetrieveOptions& o, size_t count) {
  const std::string question = lossy_utf8(asked);  // a question may come from anywhere
  const QueryVector query = query_vector(index, question);
  Ranked result;
  result.route = o.route == QueryRoute::automatic ? route_of(question) : o.route;
  if (o.method != RankMethod::mixpr) {
    result.route = QueryRoute::local;
    result.chunks =
        o.method == RankMethod::bm25 ? bm25_scores(index, query) : cosine_scores(index, query);
    keep_best(result.chunks, count);
    return result;
  }
  if (!query.terms.empty()) result.chunks = walk_from(index, query, o.walk);
  if (result.route == QueryRoute::local && !result.chunks.empty()) {
    keep_best(result.chunks, count);
    return result;
  }
  result.local_share = result.chunks.empty() ? 0 : kGlobalLocalShare * query.known;
  mix_in_centrality(index, result.local_share, result.chunks);
  spread(index, result.chunks, count);
  return result;
}

int64_t tokens_of(const Index& index, uint32_t chunk, const RetrieveOptions& o) {
  const std::string_view text = index.text(chunk);
  return o.count_tokens ? o.count_tokens(text) : static_cast<int64_t>(text.size() + 3) / 4;
}

// Passages by chunk: each ranked chunk with its neighbours, while they fit.
std::map<uint32_t, Passage> chosen(const Index& index, const std::vector<ScoredChunk>& ranks,
                                   const RetrieveOptions& o, int64_t& left_out) {
  std::map<uint32_t, Passage> passages;
  int64_t left = o.budget_tokens;
  int misfits = 0;
  const auto take = [&](uint32_t chunk, double score) {
    const auto found = passages.find(chunk);
    if (found != passages.end()) {
      found->second.score = std::max(found->second.score, score);
      return;
    }
    const int64_t tokens = tokens_of(index, chunk, o);
    if (tokens > left) return;
    left -= tokens;
    passages[chunk] = {chunk, score, tokens};
  };
  for (const ScoredChunk& s : ranks) {
    take(s.chunk, s.score);
    if (!passages.contains(s.chunk)) {
      ++left_out;
      if (!passages.empty() && ++misfits == kMisfits) break;
    }
    const uint32_t document = index.document_of(s.chunk);
    const int64_t first = index.arrays().document_chunks[document];
    const int64_t last = int64_t{index.arrays().document_chunks[document + 1]} - 1;
    for (int64_t by = 1; by <= o.context_chunks && passages.contains(s.chunk); ++by) {
      if (s.chunk - by >= first) take(static_cast<uint32_t>(s.chunk - by), 0);
      if (s.chunk + by <= last) take(static_cast<uint32_t>(s.chunk + by), 0);
    }
  }
  return passages;
}

}  // namespace

std::vector<ScoredChunk> rank_chunks(const Index& index, std::string_view question,
                                     const RetrieveOptions& options, size_t count) {
  return ranked(index, question, options, count).chunks;
}

Retrieved retrieve(const Index& index, std::string_view question, const RetrieveOptions& options) {
  require(options.budget_tokens >= 1, "retrieve: expected a budget of at least 1 token, got {}",
          options.budget_tokens);
  const Ranked ranks = ranked(index, question, options, static_cast<size_t>(options.max_chunks));
  Retrieved found{.route = ranks.route, .local_share = ranks.local_share};
  for (const auto& [chunk, passage] : chosen(index, ranks.chunks, options, found.left_out)) {
    found.passages.push_back(passage);
    found.tokens += passage.tokens;
  }
  if (ranks.route == QueryRoute::counting) found.counts = frequent_words(index, kFrequentWords);
  return found;
}

std::string context_text(const Index& index, const Retrieved& found) {
  std::string text;
  uint32_t document = 0xffffffff;
  for (size_t i = 0; i < found.passages.size(); ++i) {
    const uint32_t chunk = found.passages[i].chunk;
    const uint32_t of = index.document_of(chunk);
    if (of != document) {
      text += format("{}# {}\n", text.empty() ? "" : "\n", index.document_name(of));
    } else if (chunk != found.passages[i - 1].chunk + 1) {
      text += "[...]\n";
    }
    document = of;
    text.append(index.text(chunk)) += '\n';
  }
  return text;
}

std::vector<WordTimes> frequent_words(const Index& index, size_t count) {
  std::vector<std::pair<int64_t, uint32_t>> totals;
  for (uint32_t t = 0; t < index.terms(); ++t) {
    if (index.is_name_pair(t)) continue;
    int64_t times = 0;
    for (const uint8_t c : index.postings(t).counts) times += c;
    totals.emplace_back(-times, t);
  }
  const size_t kept = std::min(count, totals.size());
  std::partial_sort(totals.begin(), totals.begin() + static_cast<int64_t>(kept), totals.end());
  std::vector<WordTimes> words;
  for (size_t i = 0; i < kept; ++i) {
    const auto [times, term] = totals[i];
    words.push_back({std::string(index.term_text(term)), -times, index.chunks_with(term)});
  }
  return words;
}

}  // namespace tephra

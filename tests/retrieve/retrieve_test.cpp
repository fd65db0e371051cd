// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/retrieve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tephra/base/format.h"
#include "tephra/base/parallel.h"
#include "tephra/retrieve/centrality.h"
#include "tephra/retrieve/index_builder.h"
#include "tephra/retrieve/tasks.h"

namespace tephra {
namespace {

Index index_of_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text.append(line) += '\n';
  IndexBuilder builder(ChunkOptions{.kind = ChunkKind::lines});
  builder.add("lines", text);
  return builder.finish();
}

const std::vector<std::string> kFacts = {
    "Mary went to the kitchen.",     "John picked up the football.", "The weather was fine.",
    "John travelled to the garden.", "Sandra took the milk.",        "Nothing else happened."};

// Made filler: sentences over a vocabulary of its own.
std::vector<std::string> filler() {
  std::vector<std::string> lines;
  for (int i = 0; i < 3000; ++i) {
    lines.push_back(format("The word{} of word{} was a word{} for word{}.", i * 13 % 401,
                           i * 29 % 503, i * 7 % 211, i * 3 % 307));
  }
  return lines;
}

double cosine(const Index& index, uint32_t a, uint32_t b) {
  double sum = 0;
  const Postings x = index.terms_of(a), y = index.terms_of(b);
  for (size_t i = 0; i < x.chunks.size(); ++i) {
    for (size_t j = 0; j < y.chunks.size(); ++j) {
      if (x.chunks[i] != y.chunks[j]) continue;
      const double idf = double{index.idf(x.chunks[i])};
      sum += double{count_weight(x.counts[i])} * double{count_weight(y.counts[j])} * idf * idf;
    }
  }
  return sum / (double{index.arrays().chunk_norm[a]} * double{index.arrays().chunk_norm[b]});
}

// The definition: a dense matrix of all chunks and the question, iterated to its fixed point.
std::vector<double> dense_walk(const Index& index, const std::vector<ScoredChunk>& question,
                               double restart, double sharpness, double names) {
  const auto n = static_cast<size_t>(index.chunks()) + 1;
  std::vector<std::vector<double>> w(n, std::vector<double>(n));
  for (const ScoredChunk& s : question) {
    w[0][s.chunk + 1] = w[s.chunk + 1][0] = std::pow(s.score, sharpness);
  }
  for (uint32_t a = 0; a + 1 < n; ++a) {
    for (uint32_t b = 0; b + 1 < n; ++b) {
      if (a != b) w[a + 1][b + 1] = std::pow(cosine(index, a, b), sharpness);
    }
  }
  // To a name that the chunk holds, then to another chunk that holds it.
  const auto over_names = [&](uint32_t from) {
    std::vector<double> to(n);
    std::vector<uint32_t> held;
    for (const uint32_t t : index.terms_of(from).chunks) {
      if (index.kind(t) != TermKind::word && index.chunks_with(t) > 1) held.push_back(t);
    }
    for (const uint32_t t : held) {
      for (const uint32_t c : index.postings(t).chunks) {
        const auto others = static_cast<double>(index.chunks_with(t) - 1);
        if (c != from) to[c + 1] += 1 / (static_cast<double>(held.size()) * others);
      }
    }
    return to;
  };
  for (size_t from = 0; from < n; ++from) {
    const double degree = std::accumulate(w[from].begin(), w[from].end(), 0.0);
    if (degree == 0) continue;
    const std::vector<double> named =
        from > 0 ? over_names(static_cast<uint32_t>(from) - 1) : std::vector<double>(n);
    const double share = std::accumulate(named.begin(), named.end(), 0.0) > 0 ? names : 0;
    for (size_t to = 0; to < n; ++to) {
      w[from][to] = (1 - share) * w[from][to] / degree + share * named[to];
    }
  }
  std::vector<double> r(n);
  r[0] = 1;
  for (int i = 0; i < 500; ++i) {
    std::vector<double> next(n);
    double moved = 0;
    for (size_t from = 0; from < n; ++from) {
      for (size_t to = 0; to < n; ++to) {
        next[to] += (1 - restart) * r[from] * w[from][to];
        moved += (1 - restart) * r[from] * w[from][to];
      }
    }
    next[0] += 1 - moved;
    r = next;
  }
  return {r.begin() + 1, r.end()};
}

TEST(RetrieveWalk, IsThePageRankOfTheDenseMatrix) {
  std::vector<std::string> lines = filler();
  lines.resize(60);
  lines.insert(lines.end(), kFacts.begin(), kFacts.end());
  const Index index = index_of_lines(lines);
  for (const auto& [sharpness, names] :
       {std::pair{1.0, 0.0}, std::pair{2.0, 0.0}, std::pair{3.0, 0.0}, std::pair{3.0, 0.4}}) {
    const QueryVector query = query_vector(index, "word7 football word13");
    WalkOptions all{.restart = 0.3, .sharpness = sharpness, .iterations = 200};
    all.names = names;
    all.seeds = all.visits = all.neighbours = all.postings = 1 << 20;
    all.question_sharpness = sharpness;
    const std::vector<double> expected =
        dense_walk(index, cosine_scores(index, query), all.restart, sharpness, names);
    std::vector<double> got(expected.size());
    for (const ScoredChunk& s : walk_from(index, query, all)) got[s.chunk] = s.score;
    for (size_t c = 0; c < got.size(); ++c) {
      EXPECT_NEAR(got[c], expected[c], 2e-6)
          << "chunk " << c << ", sharpness " << sharpness << ", names " << names;
    }
  }
}

TEST(RetrieveWalk, IsTheSameOnAnyNumberOfThreads) {
  const std::vector<std::string> lines = filler();
  const Index index = index_of_lines(lines);
  std::vector<ScoredChunk> first;
  for (const int threads : {1, 2, 3, 8, 16}) {
    set_num_threads(threads);
    const auto got = walk_from(index, query_vector(index, "word1 word2 word3"), {});
    if (first.empty()) first = got;
    ASSERT_EQ(got.size(), first.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].chunk, first[i].chunk);
      EXPECT_EQ(got[i].score, first[i].score);
    }
  }
  set_num_threads(2);
}

TEST(RetrieveCentrality, IsTheDegreeOfTheGraphNearlyAndSumsToOne) {
  const Index index = index_of_lines(kFacts);
  const std::vector<float> got = centrality(index);
  std::vector<double> degree(got.size());
  for (uint32_t a = 0; a < got.size(); ++a) {
    for (uint32_t b = 0; b < got.size(); ++b) degree[a] += a != b ? cosine(index, a, b) : 0;
  }
  const double total = std::accumulate(degree.begin(), degree.end(), 0.0);
  for (size_t c = 0; c < got.size(); ++c) {
    EXPECT_NEAR(got[c], 0.95 * degree[c] / total + 0.05 / static_cast<double>(got.size()), 1e-6);
  }
  EXPECT_NEAR(std::accumulate(got.begin(), got.end(), 0.0), 1, 1e-6);
}

TEST(RetrieveScores, Bm25FollowsItsFormula) {
  const Index index = index_of_lines({"apple pie", "apple apple tart of plums", "milk"});
  const auto got = bm25_scores(index, query_vector(index, "apple"));
  ASSERT_EQ(got.size(), 2u);
  const double mean = 8.0 / 3, idf = std::log(1 + (3 - 2 + 0.5) / (2 + 0.5));
  EXPECT_NEAR(got[0].score, idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / mean)), 1e-6);
  EXPECT_NEAR(got[1].score, idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 5 / mean)), 1e-6);
}

TEST(RetrieveScores, AnAppleIsNotApple) {
  const Index index = index_of_lines({"So Apple sold phones.", "He ate an apple.", "Apple pie."});
  const QueryVector query = query_vector(index, "Where is the apple?");
  for (const ScoredChunk& s : cosine_scores(index, query)) {
    const double matched = cased_cosine(index, query, s.chunk) / s.score;
    EXPECT_NEAR(matched, s.chunk == 0 ? 0.25 : 1, 1e-6) << index.text(s.chunk);
  }
}

TEST(Retrieve, FollowsASecondFact) {
  const Index index = index_of_lines(kFacts);
  const Retrieved found = retrieve(index, "Where is the football?", {.max_chunks = 2});
  ASSERT_EQ(found.passages.size(), 2u);
  EXPECT_EQ(index.text(found.passages[0].chunk), "John picked up the football.");
  EXPECT_EQ(index.text(found.passages[1].chunk), "John travelled to the garden.");
  EXPECT_EQ(found.route, QueryRoute::local);
  EXPECT_EQ(context_text(index, found),
            "# lines\nJohn picked up the football.\n[...]\nJohn travelled to the garden.\n");
}

TEST(Retrieve, KeepsToTheBudgetAndTheOrderOfTheCorpus) {
  const Index index = index_of_lines(filler());
  for (const int64_t budget : {10, 100, 1000}) {
    const Retrieved found = retrieve(index, "word1 word2 word3", {.budget_tokens = budget});
    EXPECT_LE(found.tokens, budget);
    EXPECT_FALSE(found.passages.empty() && budget > 20);
    EXPECT_TRUE(
        std::is_sorted(found.passages.begin(), found.passages.end(),
                       [](const Passage& a, const Passage& b) { return a.chunk < b.chunk; }));
  }
}

TEST(Retrieve, AddsNeighboursOfTheSameDocument) {
  const Index index = index_of_lines(kFacts);
  const Retrieved found = retrieve(
      index, "weather", {.max_chunks = 1, .context_chunks = 1, .route = QueryRoute::local});
  ASSERT_EQ(found.passages.size(), 3u);
  EXPECT_EQ(found.passages[0].chunk, 1u);
  EXPECT_GT(found.passages[1].score, 0);
  EXPECT_EQ(found.passages[2].score, 0);
}

TEST(Retrieve, QuestionsOfUnknownWordsAreAnsweredFromTheWhole) {
  const Index index = index_of_lines(kFacts);
  const Retrieved found = retrieve(index, "zebra?", {});
  EXPECT_EQ(found.local_share, 0);
  EXPECT_EQ(found.passages.size(), kFacts.size());
}

TEST(Retrieve, TakesQuestionsOfAnyBytes) {
  const Index index = index_of_lines(kFacts);
  for (const char* question : {"football \xf0", "\xff\xfe football", "football \xe2\x82"}) {
    const Retrieved found = retrieve(index, question, {.max_chunks = 1});
    ASSERT_EQ(found.passages.size(), 1u);
    EXPECT_EQ(index.text(found.passages[0].chunk), "John picked up the football.");
  }
}

// Long documents before a short one: what fits is given, and the rest is counted.
TEST(Retrieve, PassagesTooLongForTheBudgetAreLeftOut) {
  std::vector<std::string> lines;
  for (int i = 0; i < 5; ++i)
    lines.push_back("The football of the football " + std::string(400, 'x'));
  lines.push_back("A football and some other things that are said here.");
  const Index index = index_of_lines(lines);
  const Retrieved found = retrieve(index, "football", {.budget_tokens = 50});
  ASSERT_EQ(found.passages.size(), 1u);
  EXPECT_EQ(found.passages[0].chunk, 5u);
  EXPECT_EQ(found.left_out, 5);
}

TEST(Retrieve, RoutesByTheQuestionsWords) {
  EXPECT_EQ(route_of("Where is the football?"), QueryRoute::local);
  EXPECT_EQ(route_of("Please SUMMARISE the book"), QueryRoute::global);
  EXPECT_EQ(route_of("What is this text about?"), QueryRoute::global);
  EXPECT_EQ(route_of("What are the 10 most common words?"), QueryRoute::counting);
  EXPECT_EQ(route_of("Who wrote the summaryless book about overalls?"), QueryRoute::local);
}

TEST(Retrieve, AGlobalAnswerHearsAllPartsOfTheCorpus) {
  const Index index = index_of_lines(filler());
  const Retrieved found = retrieve(index, "Summarise this", {.max_chunks = 32});
  ASSERT_EQ(found.passages.size(), 32u);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(found.passages[i].chunk * 32 / 3000, i);
}

TEST(RetrieveTasks, CountsAreReadOffTheIndex) {
  const RetrievalTask task = common_words({.lines = 300, .seed = 5});
  const Index index = index_of_lines(task.lines);
  const Retrieved found = retrieve(index, task.question, {});
  ASSERT_GE(found.counts.size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(found.counts[i].times, 30);
    EXPECT_EQ(std::count(task.counted.begin(), task.counted.end(), found.counts[i].word), 1);
  }
}

double recall_at_20(const RetrievalTask& task, RankMethod method) {
  const Index index = index_of_lines(task.lines);
  RetrieveOptions options;
  options.method = method;
  const auto found = rank_chunks(index, task.question, options, 20);
  double hits = 0;
  for (const uint32_t g : task.gold) {
    hits +=
        std::any_of(found.begin(), found.end(), [&](const ScoredChunk& s) { return s.chunk == g; })
            ? 1
            : 0;
  }
  return hits / static_cast<double>(task.gold.size());
}

TEST(RetrieveTasks, ChainsAreFollowedToTheirEnd) {
  const std::vector<std::string> words = filler();
  const TaskOptions options{.filler = &words, .lines = 2000, .seed = 3};
  EXPECT_EQ(recall_at_20(hash_hop(options, 10), RankMethod::mixpr), 1);
  EXPECT_LT(recall_at_20(hash_hop(options, 10), RankMethod::bm25), 0.2);
  EXPECT_EQ(recall_at_20(variable_tracking(options, 4, 3), RankMethod::mixpr), 1);
  EXPECT_EQ(recall_at_20(needle(options, {2, 2, 5}), RankMethod::mixpr), 1);
}

TEST(RetrieveTasks, AnInventedWorldIsCrossedByNames) {
  double walk = 0, plain = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const RetrievalTask task = invented_world({.lines = 800, .seed = seed}, 3);
    ASSERT_EQ(task.lines.size(), 800u);
    ASSERT_EQ(task.gold.size(), 3u);
    walk += recall_at_20(task, RankMethod::mixpr) / 4;
    plain += recall_at_20(task, RankMethod::bm25) / 4;
  }
  EXPECT_GT(walk, 0.9);
  EXPECT_LT(plain, 0.6);
}

TEST(RetrieveTasks, StoriesNeedTheGraph) {
  const std::vector<std::string> words = filler();
  double walk = 0, plain = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const TaskOptions options{.filler = &words, .lines = 2000, .seed = seed};
    for (const RetrievalTask& task : {two_fact_story(options, 10), three_fact_story(options, 10)}) {
      for (const uint32_t g : task.gold) ASSERT_EQ(task.lines[g].find("word"), std::string::npos);
      walk += recall_at_20(task, RankMethod::mixpr) / 10;
      plain += recall_at_20(task, RankMethod::cosine) / 10;
    }
  }
  EXPECT_GT(walk, 0.9);
  EXPECT_LT(plain, 0.8);
}

}  // namespace
}  // namespace tephra

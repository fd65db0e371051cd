// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/walk.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tephra/base/parallel.h"

namespace tephra {
namespace {

constexpr double kSettled = 1e-6;        // change of an iteration, in sum, that ends it
constexpr double kMinMass = 1e-12;       // a chunk visited less is not worth its edges
constexpr int64_t kRounds = 4;           // of finding edges, at least: where the walk has got to
constexpr int64_t kMostWithName = 1000;  // chunks: a name in more of them says little
constexpr int64_t kVisitGrain = 4;       // chunks of one piece of parallel work

float sharpened(float cosine, double power) {
  if (power == 3) return cosine * cosine * cosine;
  if (power == 1) return cosine;
  if (power == 2) return cosine * cosine;
  return static_cast<float>(std::pow(static_cast<double>(cosine), power));
}

struct Edges {
  std::vector<ScoredChunk> to;       // weights
  double total = 0;                  // of all edges, those not kept included
  std::vector<ScoredChunk> by_name;  // shares of a step over a name that both hold; sum to 1
};

// The edges of one chunk: an accumulation over the postings of its terms.
class EdgeFinder {
 public:
  EdgeFinder(const Index& index, const WalkOptions& options)
      : index_(index), options_(options), sums_(index.chunks()) {}

  Edges of(uint32_t chunk) {
    const Postings held = index_.terms_of(chunk);
    order_.resize(held.chunks.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return index_.chunks_with(held.chunks[a]) < index_.chunks_with(held.chunks[b]);
    });
    int64_t read = 0;
    for (const size_t i : order_) {
      const uint32_t term = held.chunks[i];
      read += index_.chunks_with(term);
      if (read > options_.postings && i != order_.front()) break;
      const float idf = index_.idf(term);
      add(term, count_weight(held.counts[i]) * idf * idf);
    }
    Edges edges = collect(chunk);
    if (options_.names > 0) edges.by_name = by_name(held, chunk);
    return edges;
  }

 private:
  // As if names were nodes: first to one of the chunk's names, then to a chunk that holds it.
  std::vector<ScoredChunk> by_name(const Postings& held, uint32_t chunk) {
    std::vector<uint32_t> names;
    for (const uint32_t term : held.chunks) {
      const int64_t with = index_.chunks_with(term);
      if (index_.kind(term) != TermKind::word && with > 1 && with <= kMostWithName)
        names.push_back(term);
    }
    const auto each = 1 / static_cast<float>(std::max<size_t>(1, names.size()));
    for (const uint32_t term : names) {
      const Postings p = index_.postings(term);
      const float share = each / static_cast<float>(p.chunks.size() - 1);
      for (const uint32_t c : p.chunks) {
        if (c != chunk) sums_.add(c, share);
      }
    }
    std::vector<ScoredChunk> to;
    for (const uint32_t c : sums_.touched()) to.push_back({c, sums_[c]});
    sums_.clear();
    keep_best(to, static_cast<size_t>(options_.neighbours));
    return to;
  }

  void add(uint32_t term, float scale) {
    const Postings p = index_.postings(term);
    for (size_t i = 0; i < p.chunks.size(); ++i) {
      sums_.add(p.chunks[i], scale * count_weight(p.counts[i]));
    }
  }

  Edges collect(uint32_t chunk) {
    const auto& norm = index_.arrays().chunk_norm;
    const float own = 1 / norm[chunk];
    Edges edges;
    for (const uint32_t c : sums_.touched()) {
      if (c == chunk) continue;
      const float weight = sharpened(std::min(1.0F, sums_[c] * own / norm[c]), options_.sharpness);
      edges.to.push_back({c, weight});
      edges.total += weight;
    }
    sums_.clear();
    keep_best(edges.to, static_cast<size_t>(options_.neighbours));
    return edges;
  }

  const Index& index_;
  const WalkOptions& options_;
  ChunkSums sums_;
  std::vector<size_t> order_;
};

// Finders for the pieces of parallel work; each has memory for every chunk, so they are reused.
class FinderPool {
 public:
  FinderPool(const Index& index, const WalkOptions& options) : index_(index), options_(options) {}

  std::unique_ptr<EdgeFinder> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<EdgeFinder>(index_, options_);
    auto finder = std::move(free_.back());
    free_.pop_back();
    return finder;
  }
  void give_back(std::unique_ptr<EdgeFinder> finder) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(finder));
  }

 private:
  const Index& index_;
  const WalkOptions& options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<EdgeFinder>> free_;
};

// The part of the graph that is known. Node 0 is the question.
class Graph {
 public:
  Graph(const Index& index, const WalkOptions& options)
      : options_(options), finders_(index, options), nodes_(1), mass_(1, 1.0) {}

  void start(const std::vector<ScoredChunk>& seeds) {
    nodes_[0].visited = true;
    double total = 0;
    for (const ScoredChunk& s : seeds) total += s.score;
    for (const ScoredChunk& s : seeds) {
      const uint32_t to = node_of(s.chunk);
      nodes_[0].to.emplace_back(to, static_cast<float>(s.score / total));
      nodes_[to].question_edge = s.score;
    }
  }

  // Finds the edges of up to `count` chunks where most of the walk is now; how many it did.
  int64_t visit(int64_t count) {
    std::vector<ScoredChunk> next;  // `chunk` is a node
    for (uint32_t n = 1; n < nodes_.size(); ++n) {
      if (!nodes_[n].visited && mass_[n] > kMinMass) next.push_back({n, mass_[n]});
    }
    keep_best(next, static_cast<size_t>(count));
    std::vector<Edges> found(next.size());
    parallel_for(static_cast<int64_t>(next.size()), kVisitGrain, [&](int64_t begin, int64_t end) {
      auto finder = finders_.take();
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        found[i] = finder->of(nodes_[next[i].chunk].chunk);
      }
      finders_.give_back(std::move(finder));
    });
    for (size_t i = 0; i < next.size(); ++i) connect(next[i].chunk, found[i]);
    return static_cast<int64_t>(next.size());
  }

  // r = (1 - restart) P r + restart e, from where it was; mass that cannot go on returns to the
  // question.
  void iterate() {
    std::vector<double>& r = mass_;
    std::vector<double> next(nodes_.size());
    for (int i = 0; i < options_.iterations; ++i) {
      std::fill(next.begin(), next.end(), 0.0);
      double moved = 0;
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if (r[n] == 0) continue;
        const double mass = (1 - options_.restart) * r[n];
        for (const auto& [to, share] : nodes_[n].to) {
          next[to] += mass * share;
          moved += mass * share;
        }
      }
      next[0] += 1 - moved;
      double change = 0;
      for (size_t n = 0; n < r.size(); ++n) change += std::abs(next[n] - r[n]);
      r.swap(next);
      if (change < kSettled) break;
    }
  }

  std::vector<ScoredChunk> scores() const {
    std::vector<ScoredChunk> result;
    for (size_t n = 1; n < nodes_.size(); ++n) result.push_back({nodes_[n].chunk, mass_[n]});
    std::sort(result.begin(), result.end(),
              [](const ScoredChunk& a, const ScoredChunk& b) { return a.chunk < b.chunk; });
    return result;
  }

 private:
  struct Node {
    uint32_t chunk = 0;
    bool visited = false;
    double question_edge = 0;
    std::vector<std::pair<uint32_t, float>> to;  // shares of what leaves it
  };

  uint32_t node_of(uint32_t chunk) {
    const auto [it, fresh] =
        node_of_chunk_.try_emplace(chunk, static_cast<uint32_t>(nodes_.size()));
    if (fresh) {
      nodes_.push_back({.chunk = chunk});
      mass_.push_back(0);
    }
    return it->second;
  }

  // What is lost to edges that were not kept goes, as the question's edge does, to the question.
  void connect(uint32_t node, const Edges& edges) {
    nodes_[node].visited = true;
    const double total = edges.total + nodes_[node].question_edge;
    if (!(total > 0)) return;
    const double names = edges.by_name.empty() ? 0 : options_.names;
    for (const ScoredChunk& e : edges.to) {
      const uint32_t to = node_of(e.chunk);
      nodes_[node].to.emplace_back(to, static_cast<float>((1 - names) * e.score / total));
    }
    for (const ScoredChunk& e : edges.by_name) {
      const uint32_t to = node_of(e.chunk);
      nodes_[node].to.emplace_back(to, static_cast<float>(names * e.score));
    }
  }

  const WalkOptions& options_;
  FinderPool finders_;
  std::vector<Node> nodes_;
  std::vector<double> mass_;
  std::unordered_map<uint32_t, uint32_t> node_of_chunk_;
};

// The question's edges: cosines to the same power, mixed with the fused ranks of cosine and BM25.
std::vector<ScoredChunk> seeds_of(const Index& index, const QueryVector& query,
                                  const WalkOptions& options) {
  const auto count = static_cast<size_t>(options.seeds);
  std::vector<ScoredChunk> cosine = cosine_scores(index, query);
  keep_best(cosine, count);
  double cosine_total = 0;
  std::vector<ScoredChunk> seeds = cosine;
  for (ScoredChunk& s : seeds) {
    const double matched = cased_cosine(index, query, s.chunk);
    s.score = sharpened(static_cast<float>(matched), options.question_sharpness);
    cosine_total += s.score;
  }
  if (options.fusion == 0) return seeds;

  std::vector<ScoredChunk> bm25 = bm25_scores(index, query);
  keep_best(bm25, count);
  std::vector<ScoredChunk> fused = fuse_ranks(cosine, bm25);
  double fused_total = 0;
  for (ScoredChunk& s : fused) {
    s.score = s.score * s.score;
    fused_total += s.score;
  }
  std::unordered_map<uint32_t, double> by_cosine;
  for (const ScoredChunk& s : seeds) by_cosine[s.chunk] = s.score;
  for (ScoredChunk& s : fused) {
    s.score = options.fusion * s.score * cosine_total / fused_total +
              (1 - options.fusion) * by_cosine[s.chunk];
  }
  return fused;
}

}  // namespace

std::vector<ScoredChunk> walk_from(const Index& index, const QueryVector& query,
                                   const WalkOptions& options) {
  const std::vector<ScoredChunk> seeds = seeds_of(index, query, options);
  if (seeds.empty()) return {};
  Graph graph(index, options);
  graph.start(seeds);
  graph.iterate();
  const int64_t each = ceil_div(options.visits, kRounds);
  for (int64_t left = options.visits; left > 0;) {
    const int64_t done = graph.visit(std::min(each, left));
    if (done == 0) break;
    left -= done;
    graph.iterate();
  }
  return graph.scores();
}

}  // namespace tephra

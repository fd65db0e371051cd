// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/centrality.h"

#include <algorithm>
#include <numeric>

#include "tephra/base/parallel.h"

namespace tephra {
namespace {

constexpr double kRestart = 0.05;
constexpr int64_t kGrain = 1 << 12;

// X and its transpose, applied.
class Similarities {
 public:
  explicit Similarities(const Index& index)
      : index_(index), idf_(static_cast<size_t>(index.terms())) {
    for (uint32_t t = 0; t < idf_.size(); ++t) idf_[t] = index.idf(t);
  }

  // (X X' - 1) r
  std::vector<float> times(const std::vector<float>& r) const {
    const IndexArrays& a = index_.arrays();
    std::vector<float> scaled(r.size());
    for (size_t c = 0; c < r.size(); ++c) scaled[c] = r[c] / a.chunk_norm[c];
    std::vector<float> terms(idf_.size());
    parallel_for(index_.terms(), kGrain, [&](int64_t begin, int64_t end) {
      for (auto t = static_cast<uint32_t>(begin); t < end; ++t) {
        float sum = 0;
        for (uint64_t p = a.term_postings[t]; p < a.term_postings[t + 1]; ++p) {
          sum += count_weight(a.count_of_term[p]) * scaled[a.chunk_of_term[p]];
        }
        terms[t] = sum * idf_[t] * idf_[t];
      }
    });
    std::vector<float> out(r.size());
    parallel_for(index_.chunks(), kGrain, [&](int64_t begin, int64_t end) {
      for (auto c = static_cast<uint32_t>(begin); c < end; ++c) {
        float sum = 0;
        for (uint64_t p = a.chunk_terms[c]; p < a.chunk_terms[c + 1]; ++p) {
          sum += count_weight(a.count_of_chunk[p]) * terms[a.term_of_chunk[p]];
        }
        out[c] = std::max(0.0F, sum / a.chunk_norm[c] - r[c]);
      }
    });
    return out;
  }

 private:
  const Index& index_;
  std::vector<float> idf_;
};

void normalize(std::vector<float>& r) {
  const double sum = std::accumulate(r.begin(), r.end(), 0.0);
  const auto even = static_cast<float>(1.0 / static_cast<double>(r.size()));
  for (float& v : r) v = sum > 0 ? static_cast<float>(v / sum) : even;
}

}  // namespace

// Without a restart the answer of an undirected graph is each node's degree; from there one step
// of the walk with restart is all but the fixed point.
std::vector<float> centrality(const Index& index) {
  const Similarities w(index);
  const std::vector<float> degree =
      w.times(std::vector<float>(static_cast<size_t>(index.chunks()), 1));
  std::vector<float> r = degree;
  normalize(r);
  const auto even = static_cast<float>(1.0 / static_cast<double>(r.size()));
  for (float& v : r) v = static_cast<float>((1 - kRestart) * v + kRestart * even);
  return r;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/index_matches.h"

#include <algorithm>
#include <tuple>

#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/data/dedup/document_sketch.h"

namespace tephra {
namespace {

// Documents of one segment that share a key and are looked at: beyond it the key says little.
constexpr size_t kMostPerKey = 64;
constexpr int64_t kMatchGrain = 256;

struct Candidate {
  uint32_t document, segment, match;
  bool operator==(const Candidate&) const = default;
};

class CandidateSearch {
 public:
  CandidateSearch(const DedupIndex& index, const SignatureFiles& signatures, int64_t memory_bytes)
      : index_(index), signatures_(signatures) {
    const auto need = static_cast<int64_t>(signatures.documents() * sizeof(BandRecord));
    parts_ = static_cast<uint64_t>(need / std::max<int64_t>(memory_bytes, 1 << 10) + 1);
  }

  std::vector<Candidate> run() {
    const int64_t bands = index_.manifest().bands;
    Progress progress("lookup", bands, "bands");
    for (int64_t band = 0; band < bands; ++band) {
      for (uint64_t part = 0; part < parts_; ++part) look_up(band, part);
      std::sort(found_.begin(), found_.end(), [](const Candidate& a, const Candidate& b) {
        return std::tie(a.document, a.segment, a.match) < std::tie(b.document, b.segment, b.match);
      });
      found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
      progress.add(1);
      stop_if_interrupted();
    }
    return std::move(found_);
  }

  int64_t unchecked() const { return std::count(crowded_.begin(), crowded_.end(), true); }

 private:
  void look_up(int64_t band, uint64_t part) {
    std::vector<BandRecord> records = signatures_.band(band, part, parts_);
    std::sort(records.begin(), records.end(),
              [](const BandRecord& a, const BandRecord& b) { return a.key < b.key; });
    for (size_t segment = 0; segment < index_.segments(); ++segment) {
      if (index_.manifest().kind == IndexKind::bloom) {
        const BloomFilter filter = index_.filter(segment, band);
        for (const BandRecord& record : records) {
          if (filter.holds(record.key)) add(record.document, segment, 0);
        }
      } else {
        merge(records, index_.band(segment, band), segment);
      }
    }
  }

  // Both are sorted by key.
  void merge(std::span<const BandRecord> records, std::span<const BandRecord> indexed,
             size_t segment) {
    size_t at = 0;
    for (const BandRecord& record : records) {
      while (at < indexed.size() && indexed[at].key < record.key) ++at;
      for (size_t i = at; i < indexed.size() && indexed[i].key == record.key; ++i) {
        if (i - at == kMostPerKey) {
          crowded_.resize(signatures_.documents());
          crowded_[record.document] = true;
          break;
        }
        add(record.document, segment, indexed[i].document);
      }
    }
  }

  void add(uint32_t document, size_t segment, uint32_t match) {
    found_.push_back({document, static_cast<uint32_t>(segment), match});
  }

  const DedupIndex& index_;
  const SignatureFiles& signatures_;
  uint64_t parts_;
  std::vector<Candidate> found_;
  std::vector<bool> crowded_;
};

// Compares documents with their candidates, a batch at a time.
class SketchComparison {
 public:
  SketchComparison(const DedupIndex& index, float least, std::vector<IndexMatch>& matches)
      : index_(index), least_(least), matches_(matches) {}

  void add(std::span<const Candidate> candidates, std::vector<uint32_t> sketch) {
    batch_.push_back({candidates, std::move(sketch), {}});
    if (batch_.size() == kBatch) flush();
  }

  void flush() {
    parallel_for(static_cast<int64_t>(batch_.size()), kMatchGrain, [&](int64_t from, int64_t to) {
      for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) compare(batch_[i]);
    });
    for (const Item& item : batch_) {
      if (item.best.similarity >= least_) matches_.push_back(item.best);
    }
    batch_.clear();
    stop_if_interrupted();
  }

 private:
  static constexpr size_t kBatch = size_t{1} << 15;

  struct Item {
    std::span<const Candidate> candidates;
    std::vector<uint32_t> sketch;
    IndexMatch best;
  };

  void compare(Item& item) const {
    item.best.similarity = -1;
    for (const Candidate& each : item.candidates) {
      const auto similar = static_cast<float>(
          sketch_similarity(item.sketch, index_.sketch(each.segment, each.match)));
      if (similar <= item.best.similarity) continue;
      item.best = {each.document, each.segment, each.match, similar};
    }
  }

  const DedupIndex& index_;
  float least_;
  std::vector<IndexMatch>& matches_;
  std::vector<Item> batch_;
};

// Those of one document, off the front.
std::span<const Candidate> take_document(std::span<const Candidate>& candidates) {
  size_t end = 1;
  while (end < candidates.size() && candidates[end].document == candidates[0].document) ++end;
  const std::span<const Candidate> first = candidates.first(end);
  candidates = candidates.subspan(end);
  return first;
}

}  // namespace

IndexMatches find_index_matches(const DedupIndex& index, const SignatureFiles& signatures,
                                const MatchRules& rules) {
  CandidateSearch search(index, signatures, rules.memory_bytes);
  const std::vector<Candidate> candidates = search.run();
  IndexMatches result;
  result.unchecked = search.unchecked();
  std::span<const Candidate> rest = candidates;
  if (!rules.verify || index.manifest().kind == IndexKind::bloom) {
    while (!rest.empty()) {
      const Candidate& first = take_document(rest).front();
      result.matches.push_back({first.document, first.segment, first.match, 1});
    }
    return result;
  }
  result.compared = static_cast<int64_t>(candidates.size());
  SketchComparison comparison(index, static_cast<float>(rules.similarity), result.matches);
  uint32_t document = 0;
  signatures.each_sketch([&](std::string_view bytes) {
    if (!rest.empty() && rest[0].document == document) {
      comparison.add(take_document(rest), take_sketch(bytes, "signatures").hashes);
    }
    ++document;
  });
  comparison.flush();
  return result;
}

}  // namespace tephra

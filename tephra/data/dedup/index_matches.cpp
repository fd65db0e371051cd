// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/index_matches.h"

#include <algorithm>
#include <compare>
#include <span>

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
  auto operator<=>(const Candidate&) const = default;
};

template <class T>
void sort_unique(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// What may resemble a document, and documents of which not all that may was looked at.
struct Candidates {
  std::vector<Candidate> found;
  std::vector<uint32_t> crowded;

  void sort() {
    sort_unique(found);
    sort_unique(crowded);
  }
};

class CandidateSearch {
 public:
  explicit CandidateSearch(const DedupIndex& index) : index_(index) {}

  // Looks for new documents by their keys of a band.
  void look_up(int64_t band, std::vector<BandRecord>& records) {
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
    if (all_.found.size() > 2 * sorted_) sort();
    stop_if_interrupted();
  }

  Candidates take() {
    sort();
    return std::move(all_);
  }

 private:
  // Both are sorted by key.
  void merge(std::span<const BandRecord> records, std::span<const BandRecord> indexed,
             size_t segment) {
    if (records.empty()) return;
    const auto begin =
        std::lower_bound(indexed.begin(), indexed.end(), uint64_t{records[0].key},
                         [](const BandRecord& record, uint64_t key) { return record.key < key; });
    auto at = static_cast<size_t>(begin - indexed.begin());
    for (const BandRecord& record : records) {
      while (at < indexed.size() && indexed[at].key < record.key) ++at;
      for (size_t i = at; i < indexed.size() && indexed[i].key == record.key; ++i) {
        if (i - at == kMostPerKey) {
          all_.crowded.push_back(record.document);
          break;
        }
        add(record.document, segment, indexed[i].document);
      }
    }
  }

  void add(uint32_t document, size_t segment, uint32_t match) {
    all_.found.push_back({document, static_cast<uint32_t>(segment), match});
  }

  void sort() {
    all_.sort();
    sorted_ = all_.found.size();
  }

  const DedupIndex& index_;
  Candidates all_;
  size_t sorted_ = 0;  // candidates, when they were sorted last
};

Candidates find_candidates(const DedupIndex& index, const SignatureFiles& signatures,
                           int64_t memory_bytes) {
  const auto need = static_cast<int64_t>(signatures.documents() * sizeof(BandRecord));
  const auto parts = static_cast<uint64_t>(need / std::max<int64_t>(memory_bytes, 1 << 10) + 1);
  CandidateSearch search(index);
  Progress progress("lookup", index.manifest().bands, "bands");
  for (int64_t band = 0; band < index.manifest().bands; ++band) {
    for (uint64_t part = 0; part < parts; ++part) {
      std::vector<BandRecord> records = signatures.band(band, part, parts);
      search.look_up(band, records);
    }
    progress.add(1);
  }
  return search.take();
}

// In the range of keys that is this rank's.
Candidates find_candidates(const DedupIndex& index, const BandExchange& exchange) {
  CandidateSearch search(index);
  Progress progress("lookup", static_cast<int64_t>(exchange.parts()), "parts");
  std::vector<BandRecord> records;
  for (size_t part = 0; part < exchange.parts(); ++part) {
    exchange.read(part, records);
    search.look_up(static_cast<int64_t>(exchange.band_of(part)), records);
    progress.add(1);
  }
  return search.take();
}

// What all ranks found of the documents in this one's files.
Candidates gather_own(const Candidates& found, const SignatureFiles& signatures,
                      const RankLists& lists) {
  const Shard& shard = lists.shard();
  const auto is_own = [&](uint32_t document) {
    return static_cast<int64_t>(signatures.file_of(document)) % shard.count == shard.index;
  };
  lists.give("candidates", found.found);
  lists.give("crowded", found.crowded);
  lists.ranks().meet("what it found in the index");
  Candidates own;
  for (int64_t rank = 0; rank < shard.count; ++rank) {
    for (const Candidate& each : lists.take<Candidate>("candidates", rank)) {
      if (is_own(each.document)) own.found.push_back(each);
    }
    for (const uint32_t document : lists.take<uint32_t>("crowded", rank)) {
      if (is_own(document)) own.crowded.push_back(document);
    }
  }
  own.sort();
  return own;
}

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

// Those of the candidates that resemble their documents, all of which the shard has.
IndexMatches compare(const DedupIndex& index, const SignatureFiles& signatures,
                     const Candidates& candidates, const MatchRules& rules, const Shard& shard) {
  IndexMatches result;
  result.unchecked = static_cast<int64_t>(candidates.crowded.size());
  std::span<const Candidate> rest = candidates.found;
  if (!rules.verify || index.manifest().kind == IndexKind::bloom) {
    while (!rest.empty()) {
      const Candidate& first = take_document(rest).front();
      result.matches.push_back({first.document, first.segment, first.match, 1});
    }
    return result;
  }
  result.compared = static_cast<int64_t>(rest.size());
  SketchComparison comparison(index, static_cast<float>(rules.similarity), result.matches);
  signatures.each_sketch(
      [&](uint32_t document, std::string_view bytes) {
        if (rest.empty() || rest[0].document != document) return;
        comparison.add(take_document(rest), take_sketch(bytes, "signatures").hashes);
      },
      shard);
  comparison.flush();
  return result;
}

// Of all ranks.
IndexMatches gather_all(const IndexMatches& own, const RankLists& lists) {
  lists.give("matches", own.matches);
  lists.give("counts", std::vector{own.compared, own.unchecked});
  lists.ranks().meet("its comparison with the index");
  IndexMatches all;
  for (int64_t rank = 0; rank < lists.shard().count; ++rank) {
    const auto matches = lists.take<IndexMatch>("matches", rank);
    all.matches.insert(all.matches.end(), matches.begin(), matches.end());
    const auto counts = lists.take<int64_t>("counts", rank);
    all.compared += counts.at(0);
    all.unchecked += counts.at(1);
  }
  std::sort(all.matches.begin(), all.matches.end(),
            [](const IndexMatch& a, const IndexMatch& b) { return a.document < b.document; });
  return all;
}

}  // namespace

IndexMatches find_index_matches(const DedupIndex& index, const SignatureFiles& signatures,
                                const MatchRules& rules) {
  return compare(index, signatures, find_candidates(index, signatures, rules.memory_bytes), rules,
                 {});
}

IndexMatches find_index_matches(const DedupIndex& index, const SignatureFiles& signatures,
                                const MatchRules& rules, const BandExchange& exchange,
                                const RankLists& lists) {
  const Candidates own = gather_own(find_candidates(index, exchange), signatures, lists);
  return gather_all(compare(index, signatures, own, rules, lists.shard()), lists);
}

}  // namespace tephra

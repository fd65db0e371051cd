// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/turn_index.h"

#include <algorithm>
#include <cmath>

#include "tephra/retrieve/memory/stem.h"
#include "tephra/retrieve/words.h"

namespace tephra {
namespace {

constexpr double kSaturation = 1.2;    // BM25's k1
constexpr double kLengthShare = 0.5;   // and b: turns are short, long ones say more
constexpr double kBesideBefore = 0.4;  // of the score of the turn before: it may be the question
constexpr double kBesideAfter = 0.2;
constexpr double kSpeakerShare = 2;  // of the scores of those who are asked about
constexpr double kBelow = 1 - 1e-5;

template <class Use>
uint64_t for_each_stem(std::string_view text, Use use) {
  uint64_t words = 0;
  WordReader reader(text);
  for (Word word; reader.next(word);) {
    if (is_stop_word(word.hash)) continue;
    ++words;
    use(word_hash(stem(word.text)));
  }
  return words;
}

// What a turn and its neighbours say, more for the one who is asked about; the best k.
std::vector<ScoredRow> best_rows(const TurnTable& table, const RowSet& rows,
                                 const std::vector<float>& own, const TurnSearch& search) {
  const auto speaker = search.speaker.empty() ? std::nullopt : table.find_speaker(search.speaker);
  const auto better = [](const ScoredRow& a, const ScoredRow& b) {
    return a.score != b.score ? a.score > b.score : a.row < b.row;
  };
  std::vector<ScoredRow> best;  // a heap with the worst on top
  const auto k = static_cast<size_t>(search.k);
  float least = 0;  // what a row must pass before anything else about it is looked at
  size_t at = 0;
  for (const RowRange& range : rows) {
    for (int64_t row = range.begin; row < range.end; ++row, ++at) {
      const float before = row > range.begin ? own[at - 1] : 0.0f;
      const float after = row + 1 < range.end ? own[at + 1] : 0.0f;
      const float most = own[at] + static_cast<float>(kBesideBefore) * before +
                         static_cast<float>(kBesideAfter) * after;
      if (most <= least) continue;  // the usual case
      double score = own[at];
      if (before > 0 && table.session(row - 1) == table.session(row)) {
        score += kBesideBefore * static_cast<double>(before);
      }
      if (after > 0 && table.session(row + 1) == table.session(row)) {
        score += kBesideAfter * static_cast<double>(after);
      }
      if (speaker && table.speaker(row) == *speaker) score *= kSpeakerShare;
      const ScoredRow found{row, score};
      if (score <= 0 || (best.size() == k && !better(found, best.front()))) continue;
      if (best.size() == k) {
        std::pop_heap(best.begin(), best.end(), better);
        best.pop_back();
      }
      best.push_back(found);
      std::push_heap(best.begin(), best.end(), better);
      if (best.size() == k) {  // a little less, since `most` is rounded
        least = static_cast<float>(best.front().score / (speaker ? kSpeakerShare : 1) * kBelow);
      }
    }
  }
  std::sort(best.begin(), best.end(), better);
  return best;
}

double idf(double rows, double with_term) {
  return std::log(1 + (rows - with_term + 0.5) / (with_term + 0.5));
}

}  // namespace

// How often each term occurs in each row that holds it, in the order of rows.
struct TurnIndex::Found {
  std::vector<std::span<const Posting>> terms;  // of the index, or of `owned`
  std::vector<std::vector<Posting>> owned;
  std::vector<uint32_t> lengths;  // of the rows of the set, in order
  uint64_t words = 0;

  void show_owned() { terms.assign(owned.begin(), owned.end()); }
};

uint32_t TurnIndex::id_of_word(uint64_t hash, std::string_view lower) {
  uint32_t& of_word = word_ids_[hash];
  if (of_word == HashIds::kNone) {
    uint32_t& of_stem = ids_[word_hash(stem(lower))];
    if (of_stem == HashIds::kNone) {
      of_stem = static_cast<uint32_t>(postings_.size());
      postings_.emplace_back();
    }
    of_word = of_stem;
  }
  return of_word;
}

void TurnIndex::build(const TurnTable& table) {
  std::vector<uint32_t> ids;
  for (int64_t row = rows(); row < table.rows(); ++row) {
    ids.clear();
    WordReader reader(table.text(row));
    for (Word word; reader.next(word);) {
      if (!is_stop_word(word.hash)) ids.push_back(id_of_word(word.hash, word.text));
    }
    std::sort(ids.begin(), ids.end());
    for (size_t i = 0; i < ids.size();) {
      const size_t first = i;
      while (i < ids.size() && ids[i] == ids[first]) ++i;
      postings_[ids[first]].push_back(
          {static_cast<uint32_t>(row), static_cast<uint32_t>(i - first)});
    }
    length_sums_.push_back(length_sums_.back() + ids.size());
  }
}

TurnIndex::Found TurnIndex::read(const TurnTable& table, const RowSet& rows,
                                 const std::vector<std::string>& terms) const {
  Found found;
  found.owned.resize(terms.size());
  std::vector<uint64_t> hashes;
  for (const std::string& term : terms) hashes.push_back(word_hash(term));
  std::vector<uint32_t> counts(terms.size());
  for (const RowRange& range : rows) {
    for (int64_t row = range.begin; row < range.end; ++row) {
      std::fill(counts.begin(), counts.end(), 0);
      const uint64_t words = for_each_stem(table.text(row), [&](uint64_t hash) {
        for (size_t t = 0; t < hashes.size(); ++t) counts[t] += hashes[t] == hash ? 1 : 0;
      });
      for (size_t t = 0; t < counts.size(); ++t) {
        if (counts[t] > 0) found.owned[t].push_back({static_cast<uint32_t>(row), counts[t]});
      }
      found.lengths.push_back(static_cast<uint32_t>(words));
      found.words += words;
    }
  }
  found.show_owned();
  return found;
}

TurnIndex::Found TurnIndex::look_up(const RowSet& rows,
                                    const std::vector<std::string>& terms) const {
  Found found;
  found.owned.resize(terms.size());
  found.terms.resize(terms.size());
  for (const RowRange& range : rows) {
    const auto begin = static_cast<size_t>(range.begin), end = static_cast<size_t>(range.end);
    found.words += length_sums_[end] - length_sums_[begin];
    for (size_t t = 0; t < terms.size(); ++t) {
      const uint32_t id = ids_.find(word_hash(terms[t]));
      if (id == HashIds::kNone) continue;
      const std::vector<Posting>& list = postings_[id];
      const auto before = [](const Posting& p, int64_t row) { return p.row < row; };
      const auto first = std::lower_bound(list.begin(), list.end(), range.begin, before);
      const auto last = std::lower_bound(first, list.end(), range.end, before);
      if (rows.size() == 1) {
        found.terms[t] = {first, last};
      } else {
        found.owned[t].insert(found.owned[t].end(), first, last);
      }
    }
  }
  if (rows.size() != 1) found.show_owned();
  return found;
}

TurnIndex::Found TurnIndex::found(const TurnTable& table, const RowSet& rows,
                                  const std::vector<std::string>& terms, int64_t read_rows) {
  if (row_count(rows) <= read_rows) return read(table, rows, terms);
  build(table);
  return look_up(rows, terms);
}

int64_t TurnIndex::rows_with(const TurnTable& table, const RowSet& rows,
                             const std::vector<std::string>& terms) {
  int64_t count = 0;
  const Found hits = found(table, rows, terms, kReadRows);
  for (const std::span<const Posting> list : hits.terms) {
    count += static_cast<int64_t>(list.size());
  }
  return count;
}

std::vector<ScoredRow> TurnIndex::search(const TurnTable& table, const RowSet& rows,
                                         const TurnSearch& search, int64_t read_rows) {
  const int64_t count = row_count(rows);
  if (count == 0 || search.terms.empty() || search.k <= 0) return {};
  const bool indexed = count > read_rows;
  const Found hits = found(table, rows, search.terms, read_rows);

  // Places within the set, so that few rows of a large memory cost little.
  std::vector<int64_t> starts;
  int64_t total = 0;
  for (const RowRange& r : rows) {
    starts.push_back(total);
    total += r.size();
  }
  size_t at = 0;
  const auto place = [&](int64_t row) {
    while (row >= rows[at].end) ++at;
    return static_cast<size_t>(starts[at] + row - rows[at].begin);
  };
  const double mean = std::max(1.0, static_cast<double>(hits.words) / static_cast<double>(count));
  const auto length = [&](int64_t row, size_t where) {
    if (!indexed) return static_cast<float>(hits.lengths[where]);
    const auto i = static_cast<size_t>(row);
    return static_cast<float>(static_cast<uint32_t>(length_sums_[i + 1] - length_sums_[i]));
  };
  const auto base = static_cast<float>(kSaturation * (1 - kLengthShare));
  const auto per_word = static_cast<float>(kSaturation * kLengthShare / mean);

  scores_.assign(static_cast<size_t>(count), 0.0f);
  for (const std::span<const Posting> list : hits.terms) {
    const auto weight = static_cast<float>(
        (kSaturation + 1) * idf(static_cast<double>(count), static_cast<double>(list.size())));
    at = 0;
    for (const Posting& p : list) {
      const size_t where = place(p.row);
      const auto n = static_cast<float>(p.count);
      scores_[where] += weight * n / (n + base + per_word * length(p.row, where));
    }
  }
  return best_rows(table, rows, scores_, search);
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Content search (BM25) over the rows that a filter kept. What is common and what is rare is
// counted among those rows. Few rows are read where they lie; many go through an inverted index
// that is made when it is first needed and grows with the table. Both give the same scores.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tephra/retrieve/hash_ids.h"
#include "tephra/retrieve/memory/turn_filter.h"

namespace tephra {

struct ScoredRow {
  int64_t row = 0;
  double score = 0;

  bool operator==(const ScoredRow& other) const = default;
};

struct TurnSearch {
  std::vector<std::string> terms;  // stems
  std::string speaker;             // whose turns count more; empty: nobody's
  int64_t k = 10;
};

class TurnIndex {
 public:
  static constexpr int64_t kReadRows = 2000;  // at most this many are read without the index

  // The best k rows, best first, of those that hold a term or stand beside one that does; earlier
  // rows first among equals.
  std::vector<ScoredRow> search(const TurnTable& table, const RowSet& rows,
                                const TurnSearch& search, int64_t read_rows = kReadRows);
  // In how many of the rows a term occurs, summed over the terms.
  int64_t rows_with(const TurnTable& table, const RowSet& rows,
                    const std::vector<std::string>& terms);
  void build(const TurnTable& table);  // takes in the rows that are new
  int64_t rows() const { return static_cast<int64_t>(length_sums_.size()) - 1; }

 private:
  struct Posting {
    uint32_t row;
    uint32_t count;
  };
  struct Found;
  Found found(const TurnTable& table, const RowSet& rows, const std::vector<std::string>& terms,
              int64_t read_rows);
  Found read(const TurnTable& table, const RowSet& rows,
             const std::vector<std::string>& terms) const;
  Found look_up(const RowSet& rows, const std::vector<std::string>& terms) const;

  uint32_t id_of_word(uint64_t hash, std::string_view lower);

  HashIds ids_;       // of a stem's hash
  HashIds word_ids_;  // the same of every word that was met
  std::vector<std::vector<Posting>> postings_;
  std::vector<uint64_t> length_sums_ = {0};  // words before each row
  std::vector<float> scores_;                // of one search
};

}  // namespace tephra

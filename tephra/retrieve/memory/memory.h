// SPDX-License-Identifier: Apache-2.0
// A conversation's memory: turns in a file, found again by when they were said and what they were
// about. No language model takes part; every answer says how it was found.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tephra/retrieve/memory/time_resolver.h"
#include "tephra/retrieve/memory/turn_file.h"
#include "tephra/retrieve/memory/turn_filter.h"
#include "tephra/retrieve/memory/turn_index.h"

namespace tephra {

struct SpokenTurn {  // a turn of the conversation in which a question is asked
  std::string speaker;
  std::string text;
};

struct MemoryQuery {
  std::string question;
  std::vector<SpokenTurn>
      before;                  // what was said before it, oldest first; the last 6 are looked at
  std::optional<int64_t> now;  // default: the time of the last stored turn
  int32_t session = 0;         // the stored session that it is asked in; 0: none of them
  std::string asker;           // who "I" is, if known
  int64_t k = 10;              // turns of a search by content
};

struct MemoryAnswer {
  std::vector<ScoredRow> rows;  // by time, or the best first when searched by content (`ranked`)
  bool ranked = false;
  int64_t kept = 0;                      // rows that the chain left
  Chain chain;                           // the filters, as applied
  std::vector<std::string> terms;        // what was searched for
  std::vector<std::string> explanation;  // one line for each thing understood, in order
};

enum class BackwardsClock {
  refuse,  // a turn older than the last one is an error
  clamp,   // it gets the time of the last one
};

// One caller at a time; queries build the index when they first need it.
class Memory {
 public:
  Memory() = default;  // without a file: forgets everything

  static Memory open_to_read(const Path& path);  // Fault::usage when there is no such file
  static Memory open_to_add(const Path& path);   // makes the file if there is none

  // Stored on disk when it returns; all or nothing. A session of 0 means: the current one, or a new
  // one after 20 minutes of silence. Returns the number of the first new row.
  int64_t add(std::vector<Turn> turns, BackwardsClock clock = BackwardsClock::refuse);

  MemoryAnswer query(const MemoryQuery& query);  // memory_query.cpp
  // The same rows by an explicit chain, and a search for `text` in them if it is not empty.
  MemoryAnswer select(const Chain& chain, const std::string& text, int64_t k);

  const TurnTable& table() const { return table_; }
  const TurnFileState& file_state() const { return state_; }
  void build_index() { index_.build(table_); }  // now rather than at the first search

 private:
  TurnTable table_;
  TurnIndex index_;
  std::unique_ptr<TurnWriter> writer_;
  TurnFileState state_;
};

}  // namespace tephra

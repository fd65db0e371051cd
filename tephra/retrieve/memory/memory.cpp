// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/memory.h"

#include <algorithm>
#include <unordered_set>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/question.h"

namespace tephra {

Memory Memory::open_to_read(const Path& path) {
  Memory memory;
  const std::shared_ptr<MappedFile> file = MappedFile::open(path);
  memory.state_ = read_turns(file->bytes(), path.string(), memory.table_);
  return memory;
}

Memory Memory::open_to_add(const Path& path) {
  Memory memory;
  memory.writer_ = std::make_unique<TurnWriter>(path, memory.table_);
  memory.state_ = memory.writer_->state();
  return memory;
}

int64_t Memory::add(std::vector<Turn> turns, BackwardsClock clock) {
  const int64_t first = table_.rows();
  // Checked against a table that grows with them, before anything is written.
  int64_t last_time = first > 0 ? table_.time(first - 1) : INT64_MIN;
  int32_t last_session = table_.sessions();
  std::unordered_set<std::string> new_names;
  for (size_t i = 0; i < turns.size(); ++i) {
    Turn& turn = turns[i];
    const std::string where = turns.size() > 1 ? format("turn {}: ", i + 1) : "";
    if (turn.time < last_time && clock == BackwardsClock::clamp) turn.time = last_time;
    if (turn.time < last_time) {
      throw Error(Fault::data,
                  format("{}time: the clock runs backwards: the turn before is from {}, this one "
                         "from {}",
                         where, time_text(last_time), time_text(turn.time)),
                  "correct its time, or give it the time of the turn before with --clock clamp");
    }
    if (turn.session == 0) {
      const bool silence = last_session == 0 || turn.time - last_time > kSessionGap;
      turn.session = last_session + (silence ? 1 : 0);
    }
    require_data(turn.session >= last_session,
                 "{}session: expected {} (the one before) or a later one, got {}", where,
                 last_session, turn.session);
    if (const auto problem = TurnTable().problem_with(turn)) {
      throw Error(Fault::data, where + *problem);
    }
    if (!table_.find_speaker(turn.speaker)) new_names.insert(turn.speaker);
    require_data(table_.speaker_names().size() + new_names.size() <= TurnTable::kMaxSpeakers,
                 "{}speaker: expected at most {} different names, got one more", where,
                 TurnTable::kMaxSpeakers);
    last_time = turn.time;
    last_session = turn.session;
  }
  if (writer_ != nullptr) {
    writer_->append(turns);
    state_ = writer_->state();
  }
  for (const Turn& turn : turns) table_.append(turn);
  return first;
}

MemoryAnswer Memory::select(const Chain& chain, const std::string& text, int64_t k) {
  MemoryAnswer answer;
  answer.chain = chain;
  RowSet rows = all_rows(table_);
  for (const Step& step : chain) {
    rows = keep(table_, rows, step);
    answer.explanation.push_back(
        format("{} keeps {} of {} turns", to_text(step), row_count(rows), table_.rows()));
  }
  answer.kept = row_count(rows);
  if (!text.empty()) {
    TurnSearch search{search_terms(text), {}, k};
    answer.terms = search.terms;
    answer.rows = index_.search(table_, rows, search);
    answer.ranked = true;
    return answer;
  }
  for (const RowRange& r : rows) {
    for (int64_t row = r.begin; row < r.end; ++row) answer.rows.push_back({row, 0});
  }
  return answer;
}

}  // namespace tephra

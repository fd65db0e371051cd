// SPDX-License-Identifier: Apache-2.0
// A small conversation with known dates, and made ones of any size.
#pragma once

#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/memory.h"

namespace tephra {

inline Turn said(const char* time, int32_t session, const char* speaker, const char* text) {
  return {parse_time(time).value(), session, speaker, text};
}

// Seven sessions; now is 2023-10-22, a Sunday. Sessions 6 and 7 are of that day.
inline std::vector<Turn> sample_turns() {
  return {
      said("2022-12-20T09:00:00", 1, "Ann", "I planted tulips in the garden today."),
      said("2022-12-20T09:01:00", 1, "Ben", "Lovely, what colour are the tulips?"),
      said("2023-01-05T18:30:00", 2, "Ann", "My violin lesson was hard."),
      said("2023-01-05T18:31:00", 2, "Ben", "Keep going! I baked bread with walnuts."),
      said("2023-03-05T10:00:00", 3, "Ann", "The ferry to the island was late."),
      said("2023-03-05T10:01:00", 3, "Ben", "Did you see the lighthouse?"),
      said("2023-03-05T10:02:00", 3, "Ann", "Yes, and a seal on the rocks."),
      said("2023-09-14T20:15:00", 4, "Ben", "I bought a telescope."),
      said("2023-09-14T20:16:00", 4, "Ann", "Let us look at Saturn."),
      said("2023-10-20T07:00:00", 5, "Ann", "The bakery on the corner closed."),
      said("2023-10-20T07:01:00", 5, "Ben", "Then I shall bake the bread myself."),
      said("2023-10-22T09:00:00", 6, "Ben", "The dough is rising."),
      said("2023-10-22T09:01:00", 6, "Ann", "Send me a photo of it."),
      said("2023-10-22T12:00:00", 7, "Ann", "Is the bread done?"),
      said("2023-10-22T12:01:00", 7, "Ben", "It came out well."),
  };
}

inline Memory sample_memory() {
  Memory memory;
  memory.add(sample_turns());
  return memory;
}

inline std::vector<int64_t> rows_of(const MemoryAnswer& answer) {
  std::vector<int64_t> rows;
  for (const ScoredRow& r : answer.rows) rows.push_back(r.row);
  return rows;
}

// The chain of an answer as one line.
inline std::string chain_text(const MemoryAnswer& answer) {
  std::string out;
  for (const Step& step : answer.chain) out += (out.empty() ? "" : "; ") + to_text(step);
  return out;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// The two operators that keep rows of a memory by what is known about them:
//   f_value(column, [values])    rows whose value is one of these
//   f_between(column, [lo, hi])  rows whose value lies in the closed range
// A step keeps what any of its operators keeps; a chain applies its steps one after the other.
#pragma once

#include <string>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/retrieve/memory/turn_table.h"

namespace tephra {

enum class Column {
  response,   // number of the row, from 0
  session,    // from 1
  speaker,    // a name
  date,       // 2023-10-22, as days since 1970
  month,      // 2023-10, as 12 * year + month - 1
  week,       // 2023-W42, as the day number of its Monday
  weekday,    // 1 Monday to 7 Sunday
  clock,      // 10:55, as seconds since midnight
  timestamp,  // 2023-10-22T10:55:05, as seconds since 1970
};

struct Operator {
  enum class Kind { value, between };

  Kind kind = Kind::value;
  Column column = Column::response;
  std::vector<int64_t> values;     // of f_between: lo and hi; of clocks hi < lo passes midnight
  std::vector<std::string> names;  // of the column speaker, instead

  bool operator==(const Operator& other) const = default;
};

using Step = std::vector<Operator>;
using Chain = std::vector<Step>;

Operator f_value(Column column, std::vector<int64_t> values);
Operator f_between(Column column, int64_t lo, int64_t hi);
Operator f_between_or_value(Column column, int64_t lo, int64_t hi);  // f_value when they are equal
Operator f_speaker(std::vector<std::string> names);

// Sorted, apart from each other, none empty.
using RowSet = std::vector<RowRange>;
int64_t row_count(const RowSet& rows);
RowSet all_rows(const TurnTable& table);
RowSet keep(const TurnTable& table, const RowSet& rows, const Operator& op);
RowSet keep(const TurnTable& table, const RowSet& rows, const Step& step);
RowSet keep(const TurnTable& table, const RowSet& rows, const Chain& chain);

const char* column_name(Column column);
std::vector<std::string> column_names();
std::string to_text(const Operator& op);  // f_between(date, [2023-03-05, 2023-04-02])
std::string to_text(const Step& step);    // ... or ...

// {"op": "f_value", "column": "session", "values": [3, 5]}; a step of several operators is
// {"any": [...]}. Reading names what is wrong (Fault::data).
Json to_json(const Operator& op);
Json to_json(const Chain& chain);
Chain chain_from_json(const Json& json, const std::string& where);

}  // namespace tephra

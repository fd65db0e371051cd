// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/turn_filter.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/retrieve/memory/civil_time.h"

namespace tephra {
namespace {

void add(RowSet& to, RowRange range) {
  if (range.begin >= range.end) return;
  if (!to.empty() && to.back().end >= range.begin) {
    to.back().end = std::max(to.back().end, range.end);
  } else {
    to.push_back(range);
  }
}

RowSet common(const RowSet& rows, RowRange range) {
  RowSet out;
  for (const RowRange& r : rows) {
    add(out, {std::max(r.begin, range.begin), std::min(r.end, range.end)});
  }
  return out;
}

RowSet united(const RowSet& a, const RowSet& b) {
  RowSet sorted;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(sorted),
             [](const RowRange& x, const RowRange& y) { return x.begin < y.begin; });
  RowSet out;
  for (const RowRange& r : sorted) add(out, r);
  return out;
}

RowRange days(const TurnTable& table, int64_t first, int64_t last) {
  return table.rows_in_time(first * kDaySeconds, last * kDaySeconds + kDaySeconds - 1);
}

int64_t month_start(int64_t month) {
  const auto year = static_cast<int32_t>(month / 12);
  return day_number({year, static_cast<int32_t>(month % 12) + 1, 1});
}

int32_t narrowed(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}

// Of a column that grows with the rows.
RowRange sorted_rows(const TurnTable& table, Column column, int64_t lo, int64_t hi) {
  switch (column) {
    case Column::response:
      return {std::max<int64_t>(0, lo), std::min(table.rows() - 1, hi) + 1};
    case Column::session:
      return table.rows_in_sessions(narrowed(lo), narrowed(hi));
    case Column::date:
      return days(table, lo, hi);
    case Column::month:
      return days(table, month_start(lo), month_start(hi + 1) - 1);
    case Column::week:
      return days(table, lo, hi + 6);
    default:
      return table.rows_in_time(lo, hi);
  }
}

// The rows whose day of the week or time of day lies in [lo, hi]: looked up day by day.
RowSet daily_rows(const TurnTable& table, const RowSet& rows, Column column, int64_t lo,
                  int64_t hi) {
  RowSet out;
  for (const RowRange& r : rows) {
    for (int64_t row = r.begin; row < r.end;) {
      const int32_t day = day_of(table.time(row));
      const RowRange whole = days(table, day, day);
      const RowRange today{row, std::min(whole.end, r.end)};
      row = today.end;
      if (column == Column::weekday) {
        const int32_t weekday = weekday_of(day);
        if (lo <= weekday && weekday <= hi) add(out, today);
        continue;
      }
      const int64_t midnight = int64_t{day} * kDaySeconds;
      const RowRange hours = table.rows_in_time(midnight + lo, midnight + hi);
      add(out, {std::max(today.begin, hours.begin), std::min(today.end, hours.end)});
    }
  }
  return out;
}

RowSet between(const TurnTable& table, const RowSet& rows, Column column, int64_t lo, int64_t hi) {
  if (column == Column::clock && hi < lo) {
    return united(daily_rows(table, rows, column, 0, hi),
                  daily_rows(table, rows, column, lo, kDaySeconds - 1));
  }
  if (lo > hi) return {};
  if (column == Column::weekday || column == Column::clock) {
    return daily_rows(table, rows, column, lo, hi);
  }
  return common(rows, sorted_rows(table, column, lo, hi));
}

RowSet spoken_by(const TurnTable& table, const RowSet& rows,
                 const std::vector<std::string>& names) {
  std::vector<char> wanted(table.speaker_names().size(), 0);
  for (const std::string& name : names) {
    if (const auto speaker = table.find_speaker(name)) wanted[*speaker] = 1;
  }
  RowSet out;
  for (const RowRange& r : rows) {
    for (int64_t row = r.begin; row < r.end; ++row) {
      if (wanted[table.speaker(row)] != 0) add(out, {row, row + 1});
    }
  }
  return out;
}

}  // namespace

Operator f_value(Column column, std::vector<int64_t> values) {
  return {Operator::Kind::value, column, std::move(values), {}};
}

Operator f_between(Column column, int64_t lo, int64_t hi) {
  return {Operator::Kind::between, column, {lo, hi}, {}};
}

Operator f_between_or_value(Column column, int64_t lo, int64_t hi) {
  return lo == hi ? f_value(column, {lo}) : f_between(column, lo, hi);
}

Operator f_speaker(std::vector<std::string> names) {
  return {Operator::Kind::value, Column::speaker, {}, std::move(names)};
}

int64_t row_count(const RowSet& rows) {
  int64_t count = 0;
  for (const RowRange& r : rows) count += r.size();
  return count;
}

RowSet all_rows(const TurnTable& table) {
  RowSet out;
  add(out, {0, table.rows()});
  return out;
}

RowSet keep(const TurnTable& table, const RowSet& rows, const Operator& op) {
  if (op.column == Column::speaker) return spoken_by(table, rows, op.names);
  if (op.kind == Operator::Kind::between) {
    return between(table, rows, op.column, op.values.at(0), op.values.at(1));
  }
  RowSet out;
  for (const int64_t value : op.values) {
    out = united(out, between(table, rows, op.column, value, value));
  }
  return out;
}

RowSet keep(const TurnTable& table, const RowSet& rows, const Step& step) {
  if (step.empty()) return rows;
  RowSet out = keep(table, rows, step[0]);
  for (size_t i = 1; i < step.size(); ++i) out = united(out, keep(table, rows, step[i]));
  return out;
}

RowSet keep(const TurnTable& table, const RowSet& rows, const Chain& chain) {
  RowSet out = rows;
  for (const Step& step : chain) out = keep(table, out, step);
  return out;
}

}  // namespace tephra

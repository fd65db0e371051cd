// SPDX-License-Identifier: Apache-2.0
// Ranges, open ends, sessions, and the choice among readings; the calendar is in
// time_resolver_calendar.cpp.
#include "tephra/retrieve/memory/time_resolver.h"

#include <algorithm>

#include "tephra/retrieve/memory/civil_time.h"

namespace tephra {
namespace {

using RefKind = TimeRef::Kind;
using Bound = TimePhrase::Bound;

}  // namespace

TimeResolver::TimeResolver(const TurnTable& table, const AskingMoment& moment)
    : table_(&table),
      moment_(moment),
      today_(day_of(moment.now)),
      asking_(moment.session > 0 ? moment.session : table.sessions() + 1) {}

bool TimeResolver::has_rows(const Span& s) const {
  return !keep(*table_, all_rows(*table_), f_between(s.column, s.lo, s.hi)).empty();
}

std::optional<Operator> TimeResolver::chosen(const Spans& spans) const {
  if (spans.empty()) return std::nullopt;
  const auto with_rows =
      std::find_if(spans.begin(), spans.end(), [&](const Span& s) { return has_rows(s); });
  const Span& s = with_rows == spans.end() ? spans[0] : *with_rows;
  return f_between_or_value(s.column, s.lo, s.hi);
}

std::optional<Step> TimeResolver::resolve(const TimePhrase& phrase, const Step* base) const {
  Step step;
  const auto take = [&](const TimePhrase& part) {
    Spans spans = part.last ? range(part, base) : readings(part.first, base);
    for (Span& span : spans) span = bounded(span, part.bound);
    if (auto op = chosen(spans)) step.push_back(std::move(*op));
  };
  take(phrase);
  for (const TimePhrase& part : phrase.also) take(part);
  if (step.empty()) return std::nullopt;
  // Single values of one column are one f_value.
  Step merged;
  for (Operator& op : step) {
    const bool same = !merged.empty() && op.kind == Operator::Kind::value &&
                      merged.back().kind == Operator::Kind::value &&
                      merged.back().column == op.column;
    if (same) {
      merged.back().values.insert(merged.back().values.end(), op.values.begin(), op.values.end());
    } else {
      merged.push_back(std::move(op));
    }
  }
  return merged;
}

TimeResolver::Span TimeResolver::as_dates(const Span& s) const {
  switch (s.column) {
    case Column::timestamp:
      return {Column::date, day_of(s.lo), day_of(s.hi)};
    case Column::month: {
      const auto first = [](int64_t month) {
        return day_number(
            {static_cast<int32_t>(month / 12), static_cast<int32_t>(month % 12) + 1, 1});
      };
      return {Column::date, first(s.lo), first(s.hi + 1) - 1};
    }
    case Column::session:
    case Column::response: {
      const RowSet rows = keep(*table_, all_rows(*table_), f_between(s.column, s.lo, s.hi));
      if (rows.empty()) return {Column::date, today_, today_};
      return {Column::date, day_of(table_->time(rows.front().begin)),
              day_of(table_->time(rows.back().end - 1))};
    }
    default:
      return s;
  }
}

// Both ends of one column; of ends without a year, the last that lies within reach of the first.
TimeResolver::Spans TimeResolver::range(const TimePhrase& phrase, const Step* base) const {
  Spans out;
  const Spans firsts = readings(phrase.first, base);
  TimeRef end = *phrase.last;
  Spans lasts = readings(end, base);
  if (end.kind == RefKind::day && end.year == 0) {  // it may lie ahead: until December
    end.year = civil_date(today_).year + 1;
    const Spans ahead = readings(end, base);
    lasts.insert(lasts.begin(), ahead.begin(), ahead.end());
  }
  for (const Span& first : firsts) {
    std::optional<Span> best;
    for (const Span& last : lasts) {
      const bool same = first.column == last.column && first.column != Column::timestamp;
      const Span a = same ? first : as_dates(first);
      const Span b = same ? last : as_dates(last);
      if (b.hi < a.lo) continue;
      if (!best || b.hi < best->hi) best = Span{a.column, a.lo, b.hi};
    }
    if (best) out.push_back(*best);
  }
  if (out.empty() && !firsts.empty() && !lasts.empty()) {  // told backwards
    const Span a = as_dates(firsts[0]), b = as_dates(lasts[0]);
    const bool same = firsts[0].column == lasts[0].column;
    out.push_back(same ? Span{firsts[0].column, lasts[0].lo, firsts[0].hi}
                       : Span{Column::date, b.lo, a.hi});
  }
  return out;
}

TimeResolver::Span TimeResolver::bounded(const Span& span, Bound bound) const {
  if (bound == Bound::none) return span;
  const Span s =
      span.column == Column::timestamp || span.column == Column::month ? as_dates(span) : span;
  int64_t first = 0, last = 0;
  switch (s.column) {
    case Column::date:
      first = table_->rows() == 0 ? today_ : day_of(table_->time(0));
      last = std::max<int64_t>(today_, first);
      break;
    case Column::session:
      first = 1;
      last = std::max(1, table_->sessions());
      break;
    case Column::response:
      last = std::max<int64_t>(0, table_->rows() - 1);
      break;
    case Column::clock:
      last = kDaySeconds - 1;
      break;
    default:
      return s;
  }
  switch (bound) {
    case Bound::since:
      return {s.column, s.lo, std::max(s.hi, last)};
    case Bound::after:
      return {s.column, s.hi + 1, std::max(s.hi + 1, last)};
    case Bound::until:
      return {s.column, std::min(s.lo, first), s.hi};
    default:
      return {s.column, std::min(first, s.lo - 1), s.lo - 1};
  }
}

TimeResolver::Spans TimeResolver::readings(const TimeRef& ref, const Step* base) const {
  switch (ref.kind) {
    case RefKind::day:
    case RefKind::week_of:
      return days(ref);
    case RefKind::day_of_month:
      return days_of_month(ref);
    case RefKind::month:
    case RefKind::year:
      return months(ref);
    case RefKind::ago:
    case RefKind::days_back:
      return ago(ref);
    case RefKind::last_units:
      return last_units(ref);
    case RefKind::calendar_unit:
      return calendar_unit(ref);
    case RefKind::weekday:
    case RefKind::weekday_of_week:
      return weekday(ref);
    case RefKind::weekend:
      return weekend(ref);
    case RefKind::season:
      return season(ref);
    case RefKind::holiday:
      return holiday(ref);
    case RefKind::earlier_today:
      return earlier_today(ref);
    case RefKind::clock:
      return {{Column::clock, ref.n, ref.last_n}};
    case RefKind::offset:
      return base == nullptr ? Spans{} : offset(ref, *base);
    case RefKind::bare:
      return {};
    default:
      return sessions(ref);
  }
}

TimeResolver::Spans TimeResolver::sessions(const TimeRef& ref) const {
  const int64_t all = table_->sessions();
  switch (ref.kind) {
    case RefKind::session:
      return {{Column::session, ref.n, ref.n}};
    case RefKind::sessions_ago:
      return {{Column::session, int64_t{asking_} - ref.last_n, int64_t{asking_} - ref.n}};
    case RefKind::last_sessions:
      return {{Column::session, int64_t{asking_} - ref.n, int64_t{asking_} - 1}};
    case RefKind::first_sessions:
      return {{Column::session, 1, ref.n}};
    case RefKind::this_session: {
      const int64_t now = std::min<int64_t>(asking_, all);
      return {{Column::session, now, now}};
    }
    case RefKind::response:
      return {{Column::response, ref.n, ref.n}};
    default:
      return {{Column::session, 1, all}};
  }
}

// Counted from the rows that `base` keeps: from its first one back, from its last one on.
TimeResolver::Spans TimeResolver::offset(const TimeRef& ref, const Step& base) const {
  const RowSet rows = keep(*table_, all_rows(*table_), base);
  if (rows.empty()) return {};
  const int64_t row = ref.n < 0 ? rows.front().begin : rows.back().end - 1;
  if (ref.of_sessions) {
    const int64_t session = int64_t{table_->session(row)} + ref.n;
    return {{Column::session, session, session}};
  }
  const int32_t day = day_of(table_->time(row));
  switch (ref.unit) {
    case TimeUnit::month: {
      const CivilDate d = civil_date(day);
      const int64_t month = int64_t{d.year} * 12 + d.month - 1 + ref.n;
      return {{Column::month, month, month}};
    }
    case TimeUnit::week: {
      const int64_t around = int64_t{day} + 7 * ref.n;
      const int64_t start = around - weekday_of(static_cast<int32_t>(around)) + 1;
      return {{Column::date, around, around}, {Column::date, start, start + 6}};
    }
    case TimeUnit::year: {
      const int32_t year = civil_date(day).year + ref.n;
      return {{Column::date, day_number({year, 1, 1}), day_number({year, 12, 31})}};
    }
    case TimeUnit::day:
      return {{Column::date, int64_t{day} + ref.n, int64_t{day} + ref.n}};
    default:
      return {};
  }
}

}  // namespace tephra

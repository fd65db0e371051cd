// SPDX-License-Identifier: Apache-2.0
// Readings of dates, months and times counted back from now.
#include <algorithm>

#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/time_resolver.h"

namespace tephra {
namespace {

using RefKind = TimeRef::Kind;

}  // namespace

namespace {

constexpr int32_t kFirstYear = 1;
constexpr int32_t kLastYear = 9999;
constexpr int32_t kMaxYears = 400;  // of guesses for a date without a year

int64_t day_at(int32_t year, int32_t month, int32_t day) { return day_number({year, month, day}); }

bool is_year(int32_t year) { return year >= kFirstYear && year < kLastYear; }

// The part of [lo, hi] that `part` says, in sixths.
void cut(int64_t& lo, int64_t& hi, int32_t part) {
  if (part == 0) return;
  const int64_t days = hi - lo + 1;
  const int64_t first = lo;
  hi = first + days * (part % 10) / 6 - 1;
  lo = first + days * (part / 10) / 6;
}

}  // namespace

int32_t TimeResolver::first_year() const {
  const int32_t now = civil_date(today_).year;
  const int32_t first = table_->rows() == 0 ? now : civil_date(day_of(table_->time(0))).year;
  return std::clamp(first, std::max(kFirstYear, now - kMaxYears), now);
}

int64_t TimeResolver::monday() const { return int64_t{today_} - weekday_of(today_) + 1; }

// The newest year first; one that lies ahead of today last.
TimeResolver::Spans TimeResolver::days(const TimeRef& ref) const {
  Spans out, ahead;
  const int32_t now = civil_date(today_).year;
  const auto add = [&](int32_t year, int32_t month, int32_t day) {
    if (!is_year(year) || !is_date({year, month, day})) return;
    int64_t lo = day_at(year, month, day) + ref.shift;
    int64_t hi = lo;
    if (ref.kind == RefKind::week_of) {
      lo += 7 * ref.n - weekday_of(static_cast<int32_t>(lo)) + 1;
      hi = lo + 6;
    } else if (ref.loose) {
      lo -= 6;  // the week that ends there
    }
    (ref.year == 0 && lo > today_ ? ahead : out).push_back({Column::date, lo, hi});
  };
  const auto add_both = [&](int32_t year) {
    add(year, ref.month, ref.day);
    if (ref.numeric) add(year, ref.day, ref.month);
  };
  if (ref.year != 0) {
    add_both(ref.year);
  } else if (ref.n > 0 && ref.kind == RefKind::day) {
    add_both(now - (ref.n - 1));
  } else {
    for (int32_t year = now; year >= first_year() - 1; --year) add_both(year);
  }
  out.insert(out.end(), ahead.begin(), ahead.end());
  return out;
}

TimeResolver::Spans TimeResolver::days_of_month(const TimeRef& ref) const {
  Spans out, other;
  const CivilDate now = civil_date(today_);
  const int32_t most = ref.every ? ref.n : 24;
  for (int32_t back = ref.every ? ref.n : 0; back <= most; ++back) {
    const CivilDate month = add_months({now.year, now.month, 1}, -back);
    if (!is_year(month.year) || ref.day > days_in_month(month.year, month.month)) continue;
    const int64_t day = day_at(month.year, month.month, ref.day);
    if (day > today_) continue;
    const bool fits = ref.weekday == 0 || weekday_of(static_cast<int32_t>(day)) == ref.weekday;
    (fits ? out : other).push_back({Column::date, day, day});
  }
  out.insert(out.end(), other.begin(), other.end());
  return out;
}

TimeResolver::Spans TimeResolver::months(const TimeRef& ref) const {
  Spans out;
  const CivilDate now = civil_date(today_);
  const auto add = [&](int32_t year) {
    if (!is_year(year)) return;
    const bool whole_year = ref.kind == RefKind::year;
    if (!whole_year && ref.part == 0 && ref.day == 0) {
      const int64_t month = int64_t{year} * 12 + ref.month - 1;
      out.push_back({Column::month, month, month});
      return;
    }
    int64_t lo = day_at(year, whole_year ? 1 : ref.month, 1);
    int64_t hi = whole_year ? day_at(year, 12, 31) : lo + days_in_month(year, ref.month) - 1;
    cut(lo, hi, ref.part);
    if (ref.day >= 5) lo = hi - 6;  // its last week
    if (ref.day >= 1 && ref.day < 5) {
      lo += 7 * (ref.day - 1);
      hi = lo + 6;
    }
    out.push_back({Column::date, lo, hi});
  };
  if (ref.year != 0) {
    add(ref.year);
  } else if (ref.n > 0) {
    add(now.year - (ref.n - 1));
  } else {
    for (int32_t year = now.month >= ref.month ? now.year : now.year - 1; year >= first_year() - 1;
         --year) {
      add(year);
    }
  }
  return out;
}

TimeResolver::Spans TimeResolver::ago(const TimeRef& ref) const {
  const int64_t n = ref.n, most = std::max(ref.n, ref.last_n);
  const CivilDate now = civil_date(today_);
  const int64_t month = int64_t{now.year} * 12 + now.month - 1;
  // Whole days of 24 hours before this moment.
  const auto hours = [&](int64_t days) {
    return Span{Column::timestamp, moment_.now - (days + 1) * kDaySeconds + 1,
                moment_.now - days * kDaySeconds};
  };
  const auto dates = [&](int64_t first, int64_t last) {
    return Span{Column::date, today_ - last, today_ - first};
  };
  if (ref.kind == RefKind::days_back) {
    if (ref.loose) {
      const int64_t midnight = int64_t{today_} * kDaySeconds;
      return {{Column::timestamp, midnight - 7 * 3600, midnight + 5 * 3600}, dates(n, n)};
    }
    if (n == 0) return {dates(0, 0)};
    return {dates(n, n), hours(n)};
  }
  switch (ref.unit) {
    case TimeUnit::minute:
    case TimeUnit::hour: {
      const int64_t unit = ref.unit == TimeUnit::hour ? 3600 : 60;
      const int64_t slack = ref.unit == TimeUnit::hour ? 1800 : 300;
      return {
          {Column::timestamp, moment_.now - most * unit - slack, moment_.now - n * unit + slack},
          {Column::timestamp, moment_.now - most * unit - 2 * slack,
           moment_.now - n * unit + 2 * slack},
          {Column::date, today_, today_}};
    }
    case TimeUnit::day:
      if (n != most) return {dates(n, most)};
      return {hours(n), dates(n, n), dates(n + 1, n + 1), dates(n - 1, n - 1)};
    case TimeUnit::week:
      if (n != most) return {dates(7 * n - 3, 7 * most + 3)};
      return {hours(7 * n), dates(7 * n, 7 * n), dates(7 * n - 3, 7 * n + 3)};
    case TimeUnit::month:
      return {{Column::month, month - most, month - n}};
    default: {
      if (!is_year(now.year - static_cast<int32_t>(most))) return {};
      const auto year = [&](int64_t back) { return now.year - static_cast<int32_t>(back); };
      return {{Column::month, month - 12 * most, month - 12 * n},
              {Column::date, day_at(year(most), 1, 1), day_at(year(n), 12, 31)}};
    }
  }
}

// The day the count begins with belongs to it, and today does.
TimeResolver::Spans TimeResolver::last_units(const TimeRef& ref) const {
  const int64_t n = ref.n;
  const CivilDate now = civil_date(today_);
  const auto since = [&](int64_t day) { return Spans{{Column::date, day, today_}}; };
  switch (ref.unit) {
    case TimeUnit::minute:
    case TimeUnit::hour: {
      const int64_t seconds = n * (ref.unit == TimeUnit::hour ? 3600 : 60);
      return {{Column::timestamp, moment_.now - seconds, moment_.now}};
    }
    case TimeUnit::day:
      return since(today_ - n);
    case TimeUnit::week:
      return since(today_ - 7 * n);
    default: {
      const auto months = static_cast<int32_t>(std::min<int64_t>(
          ref.unit == TimeUnit::year ? 12 * n : n, int64_t{12} * (now.year - kFirstYear)));
      return since(day_number(add_months(now, -months)));
    }
  }
}

TimeResolver::Spans TimeResolver::calendar_unit(const TimeRef& ref) const {
  const CivilDate now = civil_date(today_);
  const int64_t month = int64_t{now.year} * 12 + now.month - 1 - ref.n;
  switch (ref.unit) {
    case TimeUnit::day:
      return {{Column::date, today_ - ref.n, today_ - ref.n}};
    case TimeUnit::week: {
      const int64_t lo = monday() - 7 * ref.n;
      return {{Column::date, lo, ref.loose ? today_ : lo + 6}};
    }
    case TimeUnit::month: {
      if (!ref.loose) return {{Column::month, month, month}};
      const CivilDate first = add_months({now.year, now.month, 1}, -ref.n);
      return {{Column::date, day_number(first), today_}};
    }
    case TimeUnit::year: {
      if (!is_year(now.year - ref.n)) return {};
      const int64_t lo = day_at(now.year - ref.n, 1, 1);
      return {{Column::date, lo, ref.loose ? today_ : day_at(now.year - ref.n, 12, 31)}};
    }
    default:
      return last_units(ref);
  }
}

// The latest date before today with that name on which something was said.
TimeResolver::Spans TimeResolver::weekday(const TimeRef& ref) const {
  if (ref.every) return {{Column::weekday, ref.weekday, ref.weekday}};
  if (ref.kind == RefKind::weekday_of_week) {
    const int64_t day = monday() - 7 * ref.n + ref.weekday - 1;
    return {{Column::date, day, day}};
  }
  const int64_t back = (weekday_of(today_) - ref.weekday + 6) % 7 + 1;
  const int64_t latest = today_ - back;
  const int64_t first = table_->rows() == 0 ? latest : day_of(table_->time(0));
  int32_t more = ref.n;
  for (int64_t day = latest; day >= first; day -= 7) {
    if (has_rows({Column::date, day, day}) && more-- <= 0) return {{Column::date, day, day}};
  }
  return {{Column::date, latest - 7 * int64_t{ref.n}, latest - 7 * int64_t{ref.n}}};
}

TimeResolver::Spans TimeResolver::weekend(const TimeRef& ref) const {
  if (ref.every) return {{Column::weekday, 6, 7}};
  const int64_t saturday =
      monday() + 5 - (weekday_of(today_) >= 6 ? 0 : 7) - 7 * (std::max<int64_t>(1, ref.n) - 1);
  return {{Column::date, saturday, saturday + 1}, {Column::date, saturday - 7, saturday - 6}};
}

TimeResolver::Spans TimeResolver::season(const TimeRef& ref) const {
  Spans out;
  const CivilDate now = civil_date(today_);
  const int64_t this_month = int64_t{now.year} * 12 + now.month - 1;
  const auto add = [&](int32_t year) {
    if (!is_year(year)) return;
    const int64_t first = int64_t{year} * 12 + ref.month - 1;
    if (ref.year == 0 && first > this_month) return;
    if (ref.n == 1 && first + 2 >= this_month && ref.year == 0) return;  // last summer, in August
    out.push_back({Column::month, first, first + 2});
  };
  if (ref.year != 0) {
    add(ref.year);
    if (ref.month == 12) add(ref.year - 1);
  } else {
    for (int32_t year = now.year; year >= first_year() - 1; --year) add(year);
  }
  return out;
}

// The day itself, else the days around it.
TimeResolver::Spans TimeResolver::holiday(const TimeRef& ref) const {
  Spans exact, around;
  const int32_t now = civil_date(today_).year;
  const auto add = [&](int32_t year) {
    if (!is_year(year)) return;
    int64_t day = 0;
    if (ref.day > 0) {
      day = day_at(year, ref.month, ref.day);
    } else if (ref.month == 4) {
      day = easter_day(year);
    } else {  // the fourth Thursday of November
      const int64_t first = day_at(year, 11, 1);
      day = first + (4 - weekday_of(static_cast<int32_t>(first)) + 7) % 7 + 21;
    }
    day += ref.shift;
    if (day > today_ && ref.year == 0) return;
    exact.push_back({Column::date, day, day});
    around.push_back({Column::date, day - 3, day + 3});
  };
  if (ref.year != 0) {
    add(ref.year);
  } else {
    for (int32_t year = now; year >= first_year() - 1; --year) add(year);
  }
  exact.insert(exact.end(), around.begin(), around.end());
  return exact;
}

// Before the session in progress: the one of the question, else the last one if it has not ended.
TimeResolver::Spans TimeResolver::earlier_today(const TimeRef& ref) const {
  const int64_t midnight = int64_t{today_} * kDaySeconds;
  int64_t end = moment_.now;
  const int64_t rows = table_->rows();
  if (rows > 0) {
    const bool in_progress =
        moment_.session > 0 || moment_.now - table_->time(rows - 1) <= kSessionGap;
    const int32_t current = std::min(asking_, table_->sessions());
    const RowRange own = table_->rows_in_sessions(current, current);
    if (in_progress && own.size() > 0) end = table_->time(own.begin) - 1;
  }
  Spans out;
  if (ref.last_n > 0) {
    out.push_back({Column::timestamp, midnight + ref.n, std::min(end, midnight + ref.last_n)});
  }
  out.push_back({Column::timestamp, midnight, end});
  out.push_back({Column::date, today_, today_});
  return out;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Times that are counted from now: days, weeks and months ago, the last few days, weekdays, parts
// of today, times of day.
#include "tephra/retrieve/memory/time_matcher.h"

namespace tephra {
namespace {

using Match = TimeMatcher::Match;
using RefKind = TimeRef::Kind;

TimeMatch counted_ref(RefKind kind, TimeUnit unit, int32_t n, size_t end) {
  TimeRef ref;
  ref.kind = kind;
  ref.unit = unit;
  ref.n = ref.last_n = n;
  return {ref, end};
}

TimeMatch clock_ref(RefKind kind, int32_t first_minute, int32_t last_minute, size_t end) {
  TimeRef ref;
  ref.kind = kind;
  ref.n = first_minute * 60;
  ref.last_n = last_minute * 60 + 59;
  return {ref, end};
}

struct Hours {
  int32_t first;
  int32_t last;
};
Hours hours_of(const TimeMatcher& m, size_t i) {
  if (m.is(i, "morning")) return {4 * 60, 12 * 60 - 1};
  if (m.is(i, "afternoon")) return {12 * 60, 18 * 60 - 1};
  if (m.is(i, "evening")) return {17 * 60, 24 * 60 - 1};
  return {18 * 60, 24 * 60 - 1};  // night
}

constexpr std::string_view kDayParts = "morning|afternoon|evening|night";
constexpr std::string_view kSpanWords = "over|in|within|during|for|across|throughout|of|from";

int32_t days_in(TimeUnit unit) {
  return unit == TimeUnit::week    ? 7
         : unit == TimeUnit::month ? 30
         : unit == TimeUnit::year  ? 365
                                   : 1;
}

}  // namespace

Match TimeMatcher::relative(size_t i) const {
  if (auto m = today(i)) return m;
  if (auto m = counted_back(i)) return m;
  if (auto m = last_units(i)) return m;
  if (auto m = unit_before(i)) return m;
  if (auto m = this_unit(i)) return m;
  if (auto m = weekend(i)) return m;
  return weekday(i);
}

Match TimeMatcher::today(size_t i) const {
  if (is(i, "today|todays")) {
    for (size_t at = i > 4 ? i - 4 : 0; at < i + 5 && at < size(); ++at) {
      if (is(at, "earlier|already|previously|sooner|prior|previous|beforehand|last|before|other")) {
        return counted_ref(RefKind::earlier_today, TimeUnit::day, 0, i + 1);
      }
    }
    return counted_ref(RefKind::days_back, TimeUnit::day, 0, i + 1);
  }
  if (is(i, "tonight")) return clock_ref(RefKind::earlier_today, 17 * 60, 24 * 60 - 1, i + 1);
  if (is(i, "earlier") && is(i + 1, "in|this|on")) {
    const size_t at = skip(i + 1, "in|this|on|the|very");
    if (is(at, kDayParts)) {
      const Hours hours = hours_of(*this, at);
      return clock_ref(RefKind::earlier_today, hours.first, hours.last, at + 1);
    }
    if (is(at, "day")) return counted_ref(RefKind::earlier_today, TimeUnit::day, 0, at + 1);
  }
  if (is(i, "this|todays") && is(i + 1, kDayParts)) {
    const Hours hours = hours_of(*this, i + 1);
    return clock_ref(RefKind::earlier_today, hours.first, hours.last, i + 2);
  }
  if (is(i, "yesterday|yesterdays"))
    return counted_ref(RefKind::days_back, TimeUnit::day, 1, i + 1);
  if (is(i, "last") && is(i + 1, "night|evening")) {
    TimeMatch m = counted_ref(RefKind::days_back, TimeUnit::day, 1, i + 2);
    m.ref.loose = true;  // it reaches into the small hours of today
    return m;
  }
  if (is(i, "other") && before(i, "the") && is(i + 1, "day|night|evening|week|month")) {
    TimeMatch m = counted_ref(RefKind::ago, unit(i + 1).value_or(TimeUnit::day), 1, i + 2);
    m.ref.last_n = is(i + 1, "day|night|evening") ? 7 : 3;
    return m;
  }
  if (is(i, "recently|lately") || (is(i, "these") && is(i + 1, "days"))) {
    TimeMatch m =
        counted_ref(RefKind::last_units, TimeUnit::week, 2, is(i, "these") ? i + 2 : i + 1);
    m.ref.weak = true;
    return m;
  }
  return std::nullopt;
}

// "12 days ago", "a couple of weeks back", "half a year ago", "two Tuesdays ago".
Match TimeMatcher::counted_back(size_t i) const {
  if (is(i, "half") && is(i + 1, "a|an") && is(i + 2, "year") && is(i + 3, "ago|back|earlier")) {
    return counted_ref(RefKind::ago, TimeUnit::month, 6, i + 4);
  }
  if (is(i, "back|rewind|rewinding")) {  // "going back five months"
    if (const auto q = quantity(skip(i + 1, "by|to|just"))) {
      if (const auto u = unit(q->end); u && q->n == q->last_n) {
        return counted_ref(RefKind::ago, *u, q->n, skip(q->end + 1, "ago|from|now|today|in|time"));
      }
    }
  }
  const auto q = quantity(i);
  return q ? after_quantity(*q) : std::nullopt;
}

Match TimeMatcher::after_quantity(const Quantity& q) const {
  size_t at = q.end;
  if (is(at, "full|whole|calendar|entire|more|long|short")) ++at;
  const bool back = is(at + 1, "ago|back|earlier|prior|before|previously");
  if (at < size() && tokens_[at].weekday != 0 && back) {
    TimeMatch m = counted_ref(RefKind::weekday, TimeUnit::week, q.n - 1, at + 2);
    m.ref.weekday = tokens_[at].weekday;
    return m;
  }
  if (is(at, "weekend|weekends") && back) {
    return counted_ref(RefKind::weekend, TimeUnit::week, q.n, at + 2);
  }
  TimeUnit u = TimeUnit::day;
  int32_t times = 1;
  if (const auto known = unit(at)) {
    u = *known;
  } else if (is(at, "fortnight|fortnights")) {
    u = TimeUnit::week;
    times = 2;
  } else if (is(at, "quarter|quarters") && back) {
    u = TimeUnit::month;
    times = 3;
  } else {
    return std::nullopt;
  }
  int32_t n = q.n * times;
  size_t end = at + 1;
  if (u == TimeUnit::week && is(end, "and") && number(end + 1) && is(end + 2, "day|days")) {
    n = 7 * n + value(end + 1);  // "two weeks and three days"
    u = TimeUnit::day;
    end += 3;
  }
  auto m = units_before(u, n, end);
  if (m && m->ref.kind == RefKind::ago && q.last_n > q.n) m->ref.last_n = q.last_n * times;
  return m;
}

// What follows "3 days": ago, before today, before May 5, later.
Match TimeMatcher::units_before(TimeUnit u, int32_t n, size_t i) const {
  if (n > 100'000) return std::nullopt;
  if (is(i, "ago|back|previously|old|past")) return counted_ref(RefKind::ago, u, n, i + 1);
  if (is(i, "in") && is(i + 1, "the") && is(i + 2, "past")) {
    return counted_ref(RefKind::ago, u, n, i + 3);
  }
  if (is(i, "before|prior|earlier|preceding|after|following|later|since|from|leading")) {
    const bool forward = is(i, "after|following|later|since|from");
    const size_t what = skip(i + 1, "to|the|our|than|up");
    if (is(what, "today|now|this|present")) {
      if (is(i, "leading|preceding")) return counted_ref(RefKind::last_units, u, n, what + 1);
      if (forward) return std::nullopt;
      return counted_ref(RefKind::ago, u, n, skip(what + 1, "one|day|week|month|moment"));
    }
    const bool clause = is(what, "that") && is(what + 1, "we|i|you|us|our");  // "that we spoke"
    if (is(what, "that|it|then") && !clause) {
      return counted_ref(RefKind::offset, u, forward ? n : -n, what + 1);
    }
    if (is(what, "yesterday") && !forward) {
      return counted_ref(RefKind::days_back, TimeUnit::day, 1 + n * days_in(u), what + 1);
    }
    if (auto m = date(what);
        m && (m->ref.kind == RefKind::day || m->ref.kind == RefKind::holiday)) {
      m->ref.shift = (forward ? n : -n) * days_in(u);
      m->ref.weak = false;
      return m;
    }
    if (is(i, "earlier|prior")) return counted_ref(RefKind::ago, u, n, i + 1);
    if (is(i, "later|after") && ends(i + 1)) return counted_ref(RefKind::offset, u, n, i + 1);
  }
  return std::nullopt;
}

// "the last 3 days", "over the past week", "last month", "within the last two weeks".
Match TimeMatcher::last_units(size_t i) const {
  if (const auto q = number(i) ? quantity(i) : std::nullopt) {  // "the 3 most recent days"
    const bool most = is(q->end, "most") && is(q->end + 1, "recent");
    const size_t u = most ? q->end + 2 : skip(q->end, "last|latest|past|previous|preceding|recent");
    const bool many =
        u > q->end && u < size() && tokens_[u].text.ends_with("s");  // not "4, last week"
    const auto known = many ? unit(u) : std::nullopt;
    return known ? Match(counted_ref(RefKind::last_units, *known, q->n, u + 1)) : std::nullopt;
  }
  size_t at = i;
  if (is(i, "most") && is(i + 1, "recent")) {
    at = i + 2;
  } else if (is(i, "last|past|previous|preceding|prior|latest|recent|these|within")) {
    at = i + 1;
  } else {
    return std::nullopt;
  }
  at = skip(at, "the|last|past|previous");
  if (const auto q = quantity(at); q && !(is(at, "a|an") && !is(i, "within"))) {
    const size_t u = skip(q->end, "full|whole|calendar|entire|or|so");
    const int32_t most = q->last_n > q->n ? q->last_n : q->n;
    if (const auto known = unit(u)) return counted_ref(RefKind::last_units, *known, most, u + 1);
    if (is(u, "fortnight|fortnights")) {
      return counted_ref(RefKind::last_units, TimeUnit::week, 2 * most, u + 1);
    }
    return std::nullopt;
  }
  if (is(i, "these|within|recent")) return std::nullopt;
  if (is(at, "fortnight")) return counted_ref(RefKind::last_units, TimeUnit::week, 2, at + 1);
  const bool calendar = is(at, "calendar|full|whole|entire");
  const auto u = unit(calendar ? at + 1 : at);
  if (!u) return std::nullopt;
  if (calendar) return counted_ref(RefKind::calendar_unit, *u, 1, at + 2);
  return one_last_unit(i, at, *u);
}

Match TimeMatcher::one_last_unit(size_t i, size_t at, TimeUnit u) const {
  const size_t end = at + 1;
  if (is(at, "night|nights")) return std::nullopt;
  if (u == TimeUnit::week) {  // "last week Tuesday", "last week on Tuesday"
    const size_t day = skip(end, "on");
    if (day < size() && tokens_[day].weekday != 0) {
      TimeMatch m = counted_ref(RefKind::weekday_of_week, u, 1, day + 1);
      m.ref.weekday = tokens_[day].weekday;
      return m;
    }
  }
  const bool article = before(i, "the|this|these|our");
  const bool span = (article && i >= 2 && is(i - 2, kSpanWords)) || (is(i, "past") && article) ||
                    (is(i, "last|past") && before(i, "this"));
  if (u == TimeUnit::minute || u == TimeUnit::hour) {
    return counted_ref(RefKind::last_units, u, 1, end);
  }
  if (u == TimeUnit::day) {
    return is(i, "previous|preceding|prior") ? counted_ref(RefKind::days_back, u, 1, end)
                                             : counted_ref(RefKind::last_units, u, 1, end);
  }
  if (span && u == TimeUnit::week) return counted_ref(RefKind::last_units, u, 1, end);
  TimeMatch m = counted_ref(RefKind::calendar_unit, u, 1, end);
  // A week back from now, or the week before this one: people mean either.
  m.ref.loose = u == TimeUnit::week || (span && is(i, "last|past"));
  return m;
}

// "the month before last", "the day before yesterday", "the week of May 5", "the day after that".
Match TimeMatcher::unit_before(size_t i) const {
  const auto u = unit(i);
  if (!u || *u == TimeUnit::minute) return std::nullopt;
  size_t at = i + 1;
  if (*u == TimeUnit::week && is(at, "of|starting|beginning|commencing|containing|from|ending")) {
    const bool ending = is(at, "ending");
    if (auto m = date(skip(at + 1, "on|the")); m && m->ref.kind == RefKind::day) {
      m->ref.kind = ending ? RefKind::day : RefKind::week_of;
      if (ending) m->ref.loose = true;
      return m;
    }
  }
  // "the month that just ended"
  if (is(at, "that|which|just") &&
      is(skip(at, "that|which|has|have|just|only|s|now"),
         "ended|passed|finished|closed|concluded|elapsed|gone|past|over")) {
    const size_t end = skip(at, "that|which|has|have|just|only|s|now") + 1;
    return counted_ref(*u == TimeUnit::day ? RefKind::days_back : RefKind::calendar_unit, *u, 1,
                       end);
  }
  const bool prior = is(at, "before|preceding|prior");
  if (!prior && !is(at, "after|following")) return std::nullopt;
  size_t what = skip(at + 1, "the|to");
  if (is(what, "last|previous") && prior) {
    const size_t end = skip(what + 1, "one|week|month|year");
    if (*u == TimeUnit::day) return counted_ref(RefKind::days_back, *u, 2, end);
    return counted_ref(RefKind::calendar_unit, *u, 2, end);
  }
  if (is(what, "yesterday") && prior) return counted_ref(RefKind::days_back, *u, 2, what + 1);
  if (is(what, "today|this|now|current") && prior) {
    const size_t end = skip(what + 1, "one|day|week|month|year");
    if (*u == TimeUnit::day) return counted_ref(RefKind::days_back, *u, 1, end);
    return counted_ref(RefKind::calendar_unit, *u, 1, end);
  }
  const int32_t step = prior ? -1 : 1;
  if (is(what, "that|it")) return counted_ref(RefKind::offset, *u, step, what + 1);
  if (auto m = date(what); m && (m->ref.kind == RefKind::day || m->ref.kind == RefKind::holiday)) {
    m->ref.weak = false;
    if (*u == TimeUnit::week) {
      m->ref.kind = m->ref.kind == RefKind::day ? RefKind::week_of : m->ref.kind;
      m->ref.n = step;
    } else {
      m->ref.shift = step * days_in(*u);
    }
    return m;
  }
  return ends(what) ? Match(counted_ref(RefKind::offset, *u, step, what)) : std::nullopt;
}

Match TimeMatcher::this_unit(size_t i) const {
  if (is(i, "this|the") && is(i + 1, "very|same|present|current|ongoing|running") && unit(i + 2)) {
    TimeMatch m = counted_ref(RefKind::calendar_unit, *unit(i + 2), 0, i + 3);
    if (m.ref.unit == TimeUnit::day) m.ref.kind = RefKind::days_back;
    return is(i, "the") && is(i + 1, "very|same") ? std::nullopt : Match(m);
  }
  const auto u = unit(i + 1);
  if (!u || is(i + 1, "night|nights")) return std::nullopt;
  if (is(i, "this|current|present")) {
    if (*u == TimeUnit::day) return counted_ref(RefKind::days_back, *u, 0, i + 2);
    if (*u == TimeUnit::week) {
      const size_t day = skip(i + 2, "on");
      if (day < size() && tokens_[day].weekday != 0) {
        TimeMatch m = counted_ref(RefKind::weekday_of_week, *u, 0, day + 1);
        m.ref.weekday = tokens_[day].weekday;
        return m;
      }
    }
    return counted_ref(RefKind::calendar_unit, *u, 0, i + 2);
  }
  // "since the month began", "the week so far"
  const bool running =
      is(i + 2, "began|started|opened|so") || (is(i + 2, "to") && is(i + 3, "date"));
  if (is(i, "the") && running && !is(i + 3, "that|much|many")) {
    return counted_ref(*u == TimeUnit::day ? RefKind::days_back : RefKind::calendar_unit, *u, 0,
                       i + 3);
  }
  if (is(i, "next|following") && before(i, "the"))
    return counted_ref(RefKind::offset, *u, 1, i + 2);
  return std::nullopt;
}

// "last Tuesday", "on Tuesday", "Tuesday last week", "the Tuesday before last", "Tuesdays".
Match TimeMatcher::weekday(size_t i) const {
  if (i >= size() || tokens_[i].weekday == 0 || before(i, "next|coming|upcoming"))
    return std::nullopt;
  const TimeToken& t = tokens_[i];
  if (!t.sure && !t.capital && !before(i, "last|past|previous|on|this")) return std::nullopt;
  if (!t.sure && is(i, "sun|sat|mon|wed") && !before(i, "last|past|previous|on|this|recent")) {
    return std::nullopt;
  }
  TimeMatch m = counted_ref(RefKind::weekday, TimeUnit::week, 0, i + 1);
  m.ref.weekday = t.weekday;
  m.ref.every = t.plural || before(i, "every|each");
  size_t at = i + 1;
  if (is(at, "before") && is(skip(at + 1, "the"), "last|previous")) {
    m.ref.n = 1;
    m.end = skip(skip(at + 1, "the") + 1, "one");
    return m;
  }
  at = skip(at, "of|in|the");
  if (is(at, "last|this|previous") && is(at + 1, "week")) {
    m.ref.kind = RefKind::weekday_of_week;
    m.ref.n = is(at, "this") ? 0 : 1;
    m.end = at + 2;
  } else if (is(i + 1, "week|gone")) {
    m.end = i + 2;
  }
  return m;
}

Match TimeMatcher::weekend(size_t i) const {
  if (!is(i, "weekend|weekends") || before(i, "next|coming|upcoming")) return std::nullopt;
  TimeMatch m = counted_ref(RefKind::weekend, TimeUnit::week, 1, i + 1);
  if (is(i + 1, "before") && is(skip(i + 2, "the"), "last|previous")) {
    m.ref.n = 2;
    m.end = skip(skip(i + 2, "the") + 1, "one");
    return m;
  }
  if (is(i + 1, "of|around|after|before")) {  // of a date: the week that holds it
    if (auto of = date(skip(i + 2, "the")); of && of->ref.kind == RefKind::day) {
      of->ref.kind = RefKind::week_of;
      return of;
    }
  }
  m.ref.every = is(i, "weekends");
  const bool said = before(i, "last|this|past|previous|the|on|over|recent|every|each");
  m.ref.weak = !before(i, "last|past|previous|this");
  return said ? Match(m) : std::nullopt;
}

// "at 3 pm", "10:30", "around noon".
Match TimeMatcher::clock(size_t i) const {
  if (is(i, "noon|midday|midnight|lunchtime") &&
      before(i, "at|around|by|before|after|until|since")) {
    const int32_t at = is(i, "midnight") ? 0 : 12 * 60;
    TimeMatch m = clock_ref(RefKind::clock, at, at + 59, i + 1);
    m.ref.weak = true;
    return m;
  }
  if (!number(i) || value(i) > 24) return day_part(i);
  int32_t hour = value(i), minute = 0;
  size_t at = i + 1;
  bool exact = false;
  if (mark(at, ":") && number(at + 1) && tokens_[at + 1].digits == 2 && value(at + 1) < 60) {
    minute = value(at + 1);
    at += 2;
    exact = true;
    if (mark(at, ":") && number(at + 1)) at += 2;
  }
  const bool dotted = is(at, "a|p") && mark(at + 1, ".") && is(at + 2, "m");
  const bool half = is(at, "am|pm") || dotted;
  if (half) {
    const bool pm = is(at, "pm|p");
    if (hour > 12) return std::nullopt;
    hour = hour % 12 + (pm ? 12 : 0);
    at += dotted ? 3 : 1;
  } else if (is(at, "oclock") || (is(at, "o") && is(at + 1, "clock"))) {
    at += is(at, "oclock") ? 1 : 2;
  } else if (!exact || !before(i, "at|around|about|by|before|after|since|until|between|from")) {
    return std::nullopt;
  }
  const int32_t middle = hour % 24 * 60 + minute;
  TimeMatch m = exact ? clock_ref(RefKind::clock, middle > 10 ? middle - 10 : 0,
                                  middle < 1430 ? middle + 10 : 1439, at)
                      : clock_ref(RefKind::clock, middle, middle + 59, at);
  m.ref.weak = true;
  return m;
}

// "yesterday morning", "Tuesday evening", "in the afternoon".
Match TimeMatcher::day_part(size_t i) const {
  if (!is(i, kDayParts)) return std::nullopt;
  const bool after_day = i > 0 && (is(i - 1, "yesterday") || tokens_[i - 1].weekday != 0 ||
                                   tokens_[i - 1].kind == TimeToken::Kind::ordinal);
  const bool in_the = before(i, "the|that") && i >= 2 && is(i - 2, "in|during");
  if (!after_day && !in_the) return std::nullopt;
  const Hours hours = hours_of(*this, i);
  TimeMatch m = clock_ref(RefKind::clock, hours.first, hours.last, i + 1);
  m.ref.weak = true;
  return m;
}

}  // namespace tephra

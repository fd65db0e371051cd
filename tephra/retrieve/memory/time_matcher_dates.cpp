// SPDX-License-Identifier: Apache-2.0
// Calendar dates in every usual way of writing them; months, years, seasons, holidays.
#include <array>

#include "tephra/retrieve/memory/time_matcher.h"

namespace tephra {
namespace {

using Match = TimeMatcher::Match;
using RefKind = TimeRef::Kind;

TimeRef month_ref(int32_t month) {
  TimeRef ref;
  ref.kind = RefKind::month;
  ref.month = month;
  return ref;
}

TimeRef day_ref(int32_t month, int32_t day) {
  TimeRef ref;
  ref.kind = RefKind::day;
  ref.month = month;
  ref.day = day;
  return ref;
}

constexpr std::string_view kBeforeMonth =
    "in|of|during|last|this|since|until|till|through|throughout|from|between|late|early|mid|by|"
    "before|after|month|over|back|past|previous|entire|whole|all";

}  // namespace

bool TimeMatcher::is_year(size_t i) const {
  return number(i) && tokens_[i].digits == 4 && value(i) >= 1900 && value(i) <= 2200;
}

// A day of a month at i, and not the beginning of "5 sessions" or "5:30".
bool TimeMatcher::is_day(size_t i) const {
  if (!counted(i) || value(i) < 1 || value(i) > 31 || tokens_[i].digits > 2) return false;
  return !unit(i + 1) && !session_noun(i + 1) && !is(i + 1, "am|pm|times|weekends|fortnights") &&
         !(mark(i + 1, ":") && number(i + 2));
}

// ", 2023", "of 2023", "last year" after a month or a day; returns the token after it.
size_t TimeMatcher::read_year(size_t i, TimeRef& ref) const {
  size_t at = i;
  if (mark(at, ",.") && is_year(at + 1)) ++at;
  if (is(at, "of|in") && (is_year(at + 1) || is(at + 1, "last|this|the"))) ++at;
  if (is(at, "year") && is_year(at + 1)) ++at;
  if (is_year(at)) {
    ref.year = value(at);
    return at + 1;
  }
  const size_t which = skip(at, "the");
  if (is(which, "this|last|previous") && is(which + 1, "year")) {
    ref.n = is(which, "this") ? 1 : 2;
    return which + 2;
  }
  if (is(which, "year") && is(which + 1, "before") && is(which + 2, "last")) {
    ref.n = 3;
    return which + 3;
  }
  return i;
}

Match TimeMatcher::date(size_t i) const {
  if (i >= size()) return std::nullopt;
  if (tokens_[i].weekday != 0 && !tokens_[i].plural) {  // the day's name only confirms the date
    size_t at = i + 1;
    while (mark(at, ",.") || is(at, "the|on")) ++at;
    if (auto m = plain_date(at); m && m->ref.kind == RefKind::day) return m;
    if (ordinal(at) && before(at, "the") && is_day(at)) {
      TimeRef ref;
      ref.kind = RefKind::day_of_month;
      ref.day = value(at);
      ref.weekday = tokens_[i].weekday;
      return TimeMatch{ref, at + 1};
    }
  }
  if (auto m = plain_date(i)) {
    // "2023-10-22 (Sunday)" or "October 22nd, a Sunday"
    size_t at = m->end;
    while (mark(at, ",(") || is(at, "a")) ++at;
    if (at < size() && at > m->end && tokens_[at].weekday != 0 && m->ref.kind == RefKind::day) {
      m->end = at + 1;
    }
    return m;
  }
  if (auto m = month_week(i)) return m;
  if (auto m = month_only(i)) return m;
  if (auto m = holiday(i)) return m;
  if (auto m = season(i)) return m;
  return year_only(i);
}

Match TimeMatcher::plain_date(size_t i) const {
  if (auto m = year_first(i)) return m;
  if (auto m = numeric_date(i)) return m;
  if (auto m = month_first(i)) return m;
  return day_first(i);
}

// 2023-10-22, 2023/10/22, 2023-10, 2023 October 22.
Match TimeMatcher::year_first(size_t i) const {
  if (!is_year(i)) return std::nullopt;
  if (i + 1 < size() && tokens_[i + 1].month != 0 && is_day(i + 2)) {
    TimeRef ref = day_ref(tokens_[i + 1].month, value(i + 2));
    ref.year = value(i);
    return TimeMatch{ref, i + 3};
  }
  if (!mark(i + 1, "-/.") || !number(i + 2)) return std::nullopt;
  const bool is_month = value(i + 2) >= 1 && value(i + 2) <= 12;
  const bool dashed = mark(i + 1, "-") && mark(i + 3, "-") && number(i + 4) &&
                      tokens_[i + 2].digits == 2 && tokens_[i + 4].digits == 2;
  if (!is_month && !dashed) return std::nullopt;
  const bool is_date = is_month && number(i + 4) && value(i + 4) >= 1 && value(i + 4) <= 31;
  if (dashed || (mark(i + 3, "-/.") && is_date)) {
    // 2023-13-45 has the form of a date, but no calendar has it, as none has a 31st of February.
    TimeRef ref = is_date ? day_ref(value(i + 2), value(i + 4)) : day_ref(2, 31);
    ref.year = value(i);
    size_t end = i + 5;
    if (is(end, "t") && number(end + 1)) end += 2;
    return TimeMatch{ref, end};
  }
  if (mark(i + 1, ".") || tokens_[i + 2].digits > 2) return std::nullopt;
  TimeRef ref = month_ref(value(i + 2));
  ref.year = value(i);
  return TimeMatch{ref, i + 3};
}

// 3/5/2023, 15.3.2023, 5-Mar-2023, on 3/5.
Match TimeMatcher::numeric_date(size_t i) const {
  if (!number(i) || value(i) < 1 || value(i) > 31 || tokens_[i].digits > 2 ||
      tokens_[i].digits == 0) {
    return std::nullopt;
  }
  if (!mark(i + 1, "-/.")) return std::nullopt;
  if (i + 2 < size() && tokens_[i + 2].month != 0) {
    TimeRef ref = day_ref(tokens_[i + 2].month, value(i));
    if (mark(i + 3, "-/.") && number(i + 4)) {
      ref.year = is_year(i + 4) ? value(i + 4) : 2000 + value(i + 4) % 100;
      return TimeMatch{ref, i + 5};
    }
    return TimeMatch{ref, i + 3};
  }
  if (number(i) && mark(i + 1, "/-") && is_year(i + 2) && value(i) <= 12) {  // 03/2023
    TimeRef ref = month_ref(value(i));
    ref.year = value(i + 2);
    return TimeMatch{ref, i + 3};
  }
  if (!number(i + 2) || value(i + 2) < 1 || value(i + 2) > 31) return std::nullopt;
  const int32_t a = value(i), b = value(i + 2);
  if (a > 12 && b > 12) return std::nullopt;
  TimeRef ref = a > 12 ? day_ref(b, a) : day_ref(a, b);
  if (mark(i + 1, ".") && b <= 12) ref = day_ref(b, a);  // dots: the day comes first
  ref.numeric = a <= 12 && b <= 12 && a != b && !mark(i + 1, ".");
  const bool same_marks = i + 3 < size() && tokens_[i + 3].text == tokens_[i + 1].text;
  if (same_marks && number(i + 4) &&
      (is_year(i + 4) || (mark(i + 1, "/") && tokens_[i + 4].digits == 2))) {
    ref.year = is_year(i + 4) ? value(i + 4) : 2000 + value(i + 4);
    return TimeMatch{ref, i + 5};
  }
  if (!mark(i + 1, "/") ||
      !before(i, "on|from|between|since|until|to|till|dated|and|through|after|before")) {
    return std::nullopt;
  }
  return TimeMatch{ref, i + 3};
}

// "March 5", "Mar. 5th, 2023", "March the fifth".
Match TimeMatcher::month_first(size_t i) const {
  if (i >= size() || tokens_[i].month == 0) return std::nullopt;
  size_t at = i + 1;
  if (mark(at, ".")) ++at;
  if (is(at, "the")) ++at;
  if (at > i + 1 && mark(i + 1, ".") && is(i, "may|march|june|july|april")) return std::nullopt;
  if (!is_day(at)) return std::nullopt;
  TimeMatch m{day_ref(tokens_[i].month, value(at)), 0};
  m.end = read_year(at + 1, m.ref);
  return m;
}

// "5 March", "the fifth of March, 2023", "the 5th of last month"; "on the 5th" alone.
Match TimeMatcher::day_first(size_t i) const {
  if (!counted(i) || value(i) < 1 || value(i) > 31 || tokens_[i].digits > 2) return std::nullopt;
  size_t at = i + 1;
  if (is(at, "day") && is(at + 1, "of")) ++at;
  if (is(at, "of")) at = skip(at + 1, "the|month|of");
  if (at < size() && tokens_[at].month != 0 && (at == i + 1 || ordinal(i) || number(i))) {
    TimeMatch m{day_ref(tokens_[at].month, value(i)), at + 1};
    if (mark(m.end, ".") && !tokens_[at].sure && is_year(m.end + 1)) ++m.end;
    m.end = read_year(m.end, m.ref);
    return m;
  }
  if (!ordinal(i)) return std::nullopt;
  TimeRef ref;
  ref.kind = RefKind::day_of_month;
  ref.day = value(i);
  if (at > i + 1 && is(at, "last|this|previous|current|same|that") && is(at + 1, "month")) {
    ref.n = is(at, "last|previous") ? 1 : 0;
    ref.every = true;  // the month is given
    return TimeMatch{ref, at + 2};
  }
  const bool alone = before(i, "the") && i >= 2 && is(i - 2, "on") && at == i + 1 && is_day(i) &&
                     !is(at, "time|half|quarter|to|last|most|thing|try|place|day|occasion");
  return alone ? Match(TimeMatch{ref, i + 1}) : std::nullopt;
}

// "in March", "March 2023", "early March", "last March".
Match TimeMatcher::month_only(size_t i) const {
  if (i >= size() || tokens_[i].month == 0) return std::nullopt;
  if (before(i, "next|coming|upcoming")) return std::nullopt;
  const TimeToken& t = tokens_[i];
  TimeMatch m{month_ref(t.month), i + 1};
  m.ref.part = part_before(i);
  if (mark(m.end, ".") && !t.sure && is_year(m.end + 1)) ++m.end;
  const size_t after = read_year(m.end, m.ref);
  const bool with_year = after > m.end;
  m.end = after;
  const bool inside = i > 0 && !mark(i - 1, ".?!");
  const bool named = t.sure || with_year || before(i, kBeforeMonth) || m.ref.part != 0 ||
                     (t.capital && inside && is(i, "may|march") && !is(i + 1, "i|we|you|it"));
  const bool listed = t.capital && before(i, "and|to|or|for|that|and");
  return named || listed ? Match(m) : std::nullopt;
}

// "the first week of March": the month with the number of the week as its day.
Match TimeMatcher::month_week(size_t i) const {
  if (!(ordinal(i) || is(i, "last|final")) || !is(i + 1, "week|weekend") || !is(i + 2, "of|in")) {
    return std::nullopt;
  }
  auto m = month_only(skip(i + 3, "the|month|of"));
  if (!m) return std::nullopt;
  m->ref.day = ordinal(i) ? value(i) : 5;
  return m;
}

// Sixths of a month or year that the words before it leave: "early", "the end of", "first half of".
int32_t TimeMatcher::part_before(size_t i) const {
  if (i == 0) return 0;
  size_t at = i - 1;
  if (is(at, "early")) return 2;
  if (is(at, "mid|middle")) return 24;
  if (is(at, "late")) return 46;
  if (!is(at, "of") || at == 0) return 0;
  --at;
  if (is(at, "beginning|start|outset|early")) return 2;
  if (is(at, "middle|mid")) return 24;
  if (is(at, "end|close")) return 46;
  if (is(at, "half") && at > 0) return is(at - 1, "first") ? 3 : 36;
  return 0;
}

Match TimeMatcher::year_only(size_t i) const {
  if (!is_year(i) || mark(i + 1, "-/") ||
      !before(i,
              "in|during|of|since|from|throughout|year|until|till|before|after|late|early|mid|"
              "all|over|through|and|to|between")) {
    return std::nullopt;
  }
  TimeRef ref;
  ref.kind = RefKind::year;
  ref.year = value(i);
  ref.part = part_before(i);
  return TimeMatch{ref, i + 1};
}

// A holiday is when something was said only after "on", "at" and the like; else it is a subject.
Match TimeMatcher::holiday(size_t i) const {
  if (!before(i, "on|at|around|over|since|before|after|during|last|this|until|till|past|from")) {
    return std::nullopt;
  }
  TimeRef ref;
  ref.kind = RefKind::holiday;
  ref.weak = true;
  size_t end = i + 1;
  if (is(i, "christmas|xmas")) {
    ref.month = 12;
    ref.day = is(i + 1, "eve") ? 24 : 25;
    end = skip(end, "eve|day");
  } else if (is(i, "new") && is(i + 1, "year|years")) {
    const bool eve = is(i + 2, "eve");
    ref.month = eve ? 12 : 1;
    ref.day = eve ? 31 : 1;
    end = skip(i + 2, "eve|day");
  } else if (is(i, "halloween")) {
    ref.month = 10;
    ref.day = 31;
  } else if (is(i, "valentine|valentines")) {
    ref.month = 2;
    ref.day = 14;
    end = skip(end, "day");
  } else if (is(i, "boxing|independence") && is(i + 1, "day")) {
    ref.month = is(i, "boxing") ? 12 : 7;
    ref.day = is(i, "boxing") ? 26 : 4;
    end = i + 2;
  } else if (is(i, "thanksgiving|easter")) {
    ref.month = is(i, "easter") ? 4 : 11;
    ref.day = -1;
    end = skip(end, "day|sunday");
  } else {
    return std::nullopt;
  }
  TimeMatch m{ref, end};
  m.end = read_year(end, m.ref);
  return m;
}

// Three months from `month` on: seasons of the northern half, and quarters of a year.
Match TimeMatcher::season(size_t i) const {
  TimeRef ref;
  ref.kind = RefKind::season;
  ref.weak = true;
  size_t end = i + 1;
  const bool quarter = (ordinal(i) && is(i + 1, "quarter")) || (is(i, "q") && number(i + 1));
  if (quarter) {
    const int32_t n = ordinal(i) ? value(i) : value(i + 1);
    if (n < 1 || n > 4) return std::nullopt;
    ref.month = 3 * n - 2;
    ref.weak = false;
    end = i + 2;
  } else if (before(i, "last|this|the|in|during|over|past|previous|since|late|early|mid|of")) {
    if (is(i, "spring")) ref.month = 3;
    if (is(i, "summer")) ref.month = 6;
    if (is(i, "autumn|fall")) ref.month = 9;
    if (is(i, "winter")) ref.month = 12;
  }
  if (ref.month == 0) return std::nullopt;
  if (before(i, "last|previous|past")) ref.n = 1;
  TimeMatch m{ref, end};
  m.end = read_year(end, m.ref);
  return m;
}

}  // namespace tephra

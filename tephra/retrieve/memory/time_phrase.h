// SPDX-License-Identifier: Apache-2.0
// What a question says about time, before anything is known about the memory it is asked of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

enum class TimeUnit { minute, hour, day, week, month, year };

struct TimeRef {
  enum class Kind {
    day,              // year (0: not said), month, day; numeric: month and day may be swapped
    day_of_month,     // day, and `n` months back when said ("the 5th of last month")
    month,            // year, month, part
    year,             // year, part
    ago,              // n units ago; `last_n` the most it may mean ("a few")
    days_back,        // the date n days back: yesterday
    last_units,       // the n units that end now
    calendar_unit,    // the unit n before this one: last month, this week; `loose`: "last week"
    weekday,          // weekday; n weeks before the latest (0); every: Mondays
    weekday_of_week,  // weekday of the week n weeks back
    weekend,          // the n-th latest, 1 the latest
    season,           // month: 3 spring, 6 summer, 9 autumn, 12 winter; year or 0; n years back
    holiday,          // month and day, or day < 0 for those that move; year or 0
    week_of,          // the week that holds year, month, day; n weeks after it
    earlier_today,
    clock,           // seconds [n, last_n] of the day
    session,         // number n
    sessions_ago,    // n, 1 the latest; `last_n` the most it may mean
    last_sessions,   // the latest n
    first_sessions,  // the first n
    this_session,
    every_session,
    response,  // row n
    bare,      // a number that takes its kind from the other end of a range or list
    offset,    // n units (or sessions) from what was spoken of before
  };

  Kind kind = Kind::day;
  TimeUnit unit = TimeUnit::day;
  bool of_sessions = false;  // of an offset: counts sessions
  int32_t n = 0;
  int32_t last_n = 0;
  int32_t year = 0;
  int32_t month = 0;
  int32_t day = 0;
  int32_t weekday = 0;
  int32_t part = 0;      // of a month or year, in sixths [part / 10, part % 10): 02 its first third
  int32_t shift = 0;     // days after it (before it when negative): "two days before May 5"
  bool numeric = false;  // 3/5/2023: which is the month is a guess
  bool loose = false;
  bool every = false;
  bool weak = false;  // likely a part of what is asked about, not of when it was said
};

// One reference or the range from `first` to `last`, and others that are meant as well.
struct TimePhrase {
  enum class Bound { none, since, after, until, before };

  TimeRef first;
  std::optional<TimeRef> last;
  Bound bound = Bound::none;
  std::vector<TimePhrase> also;
  size_t begin = 0;  // bytes of the text
  size_t end = 0;
};

// Everything the text says about time, in its order. Never fails: what it does not know it skips.
std::vector<TimePhrase> find_time_phrases(std::string_view text);

}  // namespace tephra

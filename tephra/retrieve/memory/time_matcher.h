// SPDX-License-Identifier: Apache-2.0
// Single references to time in a row of tokens: sessions, dates, things counted back from now. Each
// matcher looks at the tokens from one place on and says what they mean and where they end.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tephra/retrieve/memory/time_phrase.h"
#include "tephra/retrieve/memory/time_tokens.h"

namespace tephra {

struct TimeMatch {
  TimeRef ref;
  size_t end = 0;  // the token after it
};

class TimeMatcher {
 public:
  using Match = std::optional<TimeMatch>;

  explicit TimeMatcher(std::vector<TimeToken> tokens) : tokens_(std::move(tokens)) {}

  Match match(size_t i) const;  // any of those below, in an order in which the exact come first

  const std::vector<TimeToken>& tokens() const { return tokens_; }
  size_t size() const { return tokens_.size(); }
  // Whether token i is one of these words, given as "last|previous|prior".
  bool is(size_t i, std::string_view words) const;
  bool before(size_t i, std::string_view words) const { return i > 0 && is(i - 1, words); }
  bool mark(size_t i, std::string_view marks) const;
  bool number(size_t i) const;
  bool ordinal(size_t i) const;
  bool counted(size_t i) const { return number(i) || ordinal(i); }
  int32_t value(size_t i) const;
  bool session_noun(size_t i) const;
  bool session_nouns(size_t i) const;  // in the plural
  std::optional<TimeUnit> unit(size_t i) const;
  size_t skip(size_t i, std::string_view words) const;
  bool ends(size_t i) const;  // of the text or of a clause

 private:
  struct Quantity {
    int32_t n = 0;
    int32_t last_n = 0;  // more than n for "a few"
    size_t end = 0;
  };
  std::optional<Quantity> quantity(size_t i) const;

  // time_matcher_sessions.cpp
  Match response(size_t i) const;
  Match session(size_t i) const;
  Match numbered_session(size_t i) const;
  Match ordinal_session(size_t i) const;
  Match last_session(size_t i) const;
  Match sessions_ago(size_t i) const;
  Match session_before(size_t i) const;
  Match other_session(size_t i) const;
  bool talk_follows(size_t i) const;
  bool talk_precedes(size_t i) const;

  // time_matcher_dates.cpp
  Match date(size_t i) const;
  Match plain_date(size_t i) const;
  Match year_first(size_t i) const;
  Match numeric_date(size_t i) const;
  Match month_first(size_t i) const;
  Match day_first(size_t i) const;
  Match month_only(size_t i) const;
  Match year_only(size_t i) const;
  Match holiday(size_t i) const;
  Match season(size_t i) const;
  Match month_week(size_t i) const;
  bool is_day(size_t i) const;
  bool is_year(size_t i) const;
  size_t read_year(size_t i, TimeRef& ref) const;
  int32_t part_before(size_t i) const;

  // time_matcher_relative.cpp
  Match relative(size_t i) const;
  Match today(size_t i) const;
  Match counted_back(size_t i) const;
  Match after_quantity(const Quantity& q) const;
  Match units_before(TimeUnit unit, int32_t n, size_t i) const;
  Match last_units(size_t i) const;
  Match one_last_unit(size_t i, size_t at, TimeUnit unit) const;
  Match unit_before(size_t i) const;
  Match this_unit(size_t i) const;
  Match weekday(size_t i) const;
  Match weekend(size_t i) const;
  Match clock(size_t i) const;
  Match day_part(size_t i) const;

  std::vector<TimeToken> tokens_;
};

}  // namespace tephra

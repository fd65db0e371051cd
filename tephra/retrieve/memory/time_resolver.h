// SPDX-License-Identifier: Apache-2.0
// From what a question says about time to operators on a memory's rows. A phrase may have several
// readings (which year, counted by hours or by dates): the first one that has rows is taken.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tephra/retrieve/memory/time_phrase.h"
#include "tephra/retrieve/memory/turn_filter.h"

namespace tephra {

constexpr int64_t kSessionGap = 20 * 60;  // seconds of silence after which a new session begins

// When a question is asked, and in which of the stored sessions; 0: in one that is not stored,
// which comes after them all.
struct AskingMoment {
  int64_t now = 0;
  int32_t session = 0;
};

class TimeResolver {
 public:
  TimeResolver(const TurnTable& table, const AskingMoment& moment);

  // `base`: what was spoken of before, for "the day after that". Nothing when a phrase needs one
  // and there is none.
  std::optional<Step> resolve(const TimePhrase& phrase, const Step* base = nullptr) const;

 private:
  // A closed range of one column.
  struct Span {
    Column column;
    int64_t lo;
    int64_t hi;
  };
  using Spans = std::vector<Span>;

  Spans readings(const TimeRef& ref, const Step* base) const;
  Spans days(const TimeRef& ref) const;
  Spans days_of_month(const TimeRef& ref) const;
  Spans months(const TimeRef& ref) const;
  Spans ago(const TimeRef& ref) const;
  Spans last_units(const TimeRef& ref) const;
  Spans calendar_unit(const TimeRef& ref) const;
  Spans weekday(const TimeRef& ref) const;
  Spans weekend(const TimeRef& ref) const;
  Spans season(const TimeRef& ref) const;
  Spans holiday(const TimeRef& ref) const;
  Spans earlier_today(const TimeRef& ref) const;
  Spans sessions(const TimeRef& ref) const;
  Spans offset(const TimeRef& ref, const Step& base) const;

  Spans range(const TimePhrase& phrase, const Step* base) const;
  Span bounded(const Span& span, TimePhrase::Bound bound) const;
  Span as_dates(const Span& span) const;
  std::optional<Operator> chosen(const Spans& spans) const;
  bool has_rows(const Span& span) const;
  int32_t first_year() const;
  int64_t monday() const;

  const TurnTable* table_;
  AskingMoment moment_;
  int32_t today_;
  int32_t asking_;  // the session of the question
};

}  // namespace tephra

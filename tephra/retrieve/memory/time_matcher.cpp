// SPDX-License-Identifier: Apache-2.0
// What the matchers have in common: words, nouns for a session, units, quantities.
#include "tephra/retrieve/memory/time_matcher.h"

#include <algorithm>

namespace tephra {
namespace {

using Kind = TimeToken::Kind;

}  // namespace

bool TimeMatcher::is(size_t i, std::string_view words) const {
  if (i >= tokens_.size() || tokens_[i].kind == Kind::mark) return false;
  const std::string_view text = tokens_[i].text;
  while (!words.empty()) {
    const size_t bar = std::min(words.find('|'), words.size());
    if (words.substr(0, bar) == text) return true;
    words.remove_prefix(std::min(bar + 1, words.size()));
  }
  return false;
}

bool TimeMatcher::mark(size_t i, std::string_view marks) const {
  return i < tokens_.size() && tokens_[i].kind == Kind::mark &&
         marks.find(tokens_[i].text[0]) != std::string_view::npos;
}

bool TimeMatcher::number(size_t i) const {
  return i < tokens_.size() && tokens_[i].kind == Kind::number;
}

bool TimeMatcher::ordinal(size_t i) const {
  return i < tokens_.size() && tokens_[i].kind == Kind::ordinal;
}

int32_t TimeMatcher::value(size_t i) const {
  return static_cast<int32_t>(std::min<int64_t>(tokens_[i].value, 1'000'000'000));
}

// Meetings and calls are sessions only when they are ours: people also talk about others.
bool TimeMatcher::session_noun(size_t i) const {
  if (is(i,
         "session|conversation|convo|conv|chat|talk|discussion|dialogue|dialog|sitting|catchup|"
         "interaction|encounter|chitchat|exchange")) {
    return true;
  }
  if (session_nouns(i)) return true;
  if (!is(i, "meeting|call|thread|visit|meetup|hangout|checkin|meetings|calls")) return false;
  for (size_t back = 1; back <= 3 && back <= i; ++back) {
    if (is(i - back, "our|we")) return true;
  }
  if (is(i + 1, "we|number|no|nr|nos") || mark(i + 1, "#") || number(i + 1)) return true;
  const bool told = i > 0 && (counted(i - 1) || is(i - 1, "opening|initial|last|previous|latest"));
  return told &&
         (ends(i + 1) || is(i + 1, "ago|back|prior|earlier|before|in|up|to|through|until|and"));
}

bool TimeMatcher::session_nouns(size_t i) const {
  return is(i,
            "sessions|conversations|convos|convs|chats|talks|discussions|dialogues|dialogs|"
            "sittings|catchups|interactions|encounters|exchanges");
}

std::optional<TimeUnit> TimeMatcher::unit(size_t i) const {
  if (is(i, "day|days|night|nights")) return TimeUnit::day;
  if (is(i, "week|weeks|wk|wks")) return TimeUnit::week;
  if (is(i, "month|months|mos|mth|mths")) return TimeUnit::month;
  if (is(i, "year|years|yr|yrs")) return TimeUnit::year;
  if (is(i, "hour|hours|hr|hrs")) return TimeUnit::hour;
  if (is(i, "minute|minutes|min|mins")) return TimeUnit::minute;
  if (i > 0 && number(i - 1) && is(i, "d")) return TimeUnit::day;
  if (i > 0 && number(i - 1) && is(i, "w")) return TimeUnit::week;
  return std::nullopt;
}

size_t TimeMatcher::skip(size_t i, std::string_view words) const {
  while (is(i, words)) ++i;
  return i;
}

bool TimeMatcher::ends(size_t i) const { return i >= tokens_.size() || mark(i, ".,;?!)"); }

std::optional<TimeMatcher::Quantity> TimeMatcher::quantity(size_t i) const {
  i = skip(i,
           "about|around|some|exactly|roughly|approximately|approx|nearly|almost|just|only|"
           "like|maybe|precisely|circa");
  const size_t noun = skip(i, "a|the|an|these|those|past|last");
  if (is(noun, "couple")) return Quantity{2, 2, skip(noun + 1, "of|more")};
  if (is(noun, "few")) return Quantity{2, 6, noun + 1};
  if (is(noun, "handful")) return Quantity{2, 7, skip(noun + 1, "of")};
  if (is(i, "several")) return Quantity{2, 8, i + 1};
  if (is(i, "half") && is(i + 1, "a") && is(i + 2, "dozen")) return Quantity{6, 6, i + 3};
  if (is(noun, "dozen")) return Quantity{12, 12, skip(noun + 1, "of")};
  if (is(i, "a|an") && unit(i + 1)) return Quantity{1, 1, i + 1};
  if (is(i, "a|an") && (session_noun(i + 1) || is(i + 1, "fortnight|quarter"))) {
    return Quantity{1, 1, i + 1};
  }
  if (number(i) && value(i) <= 100'000) {
    size_t end = i + 1;
    if (is(end, "or") && is(end + 1, "so")) end += 2;
    return Quantity{value(i), value(i), end};
  }
  return std::nullopt;
}

TimeMatcher::Match TimeMatcher::match(size_t i) const {
  if (auto m = response(i)) return m;
  if (auto m = session(i)) return m;
  if (auto m = date(i)) return m;
  if (auto m = relative(i)) return m;
  return clock(i);
}

}  // namespace tephra

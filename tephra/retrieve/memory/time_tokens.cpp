// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/time_tokens.h"

#include <algorithm>
#include <array>
#include <optional>

#include "tephra/base/text.h"

namespace tephra {
namespace {

using Kind = TimeToken::Kind;

constexpr size_t kMaxTokens = 4096;

constexpr std::array<std::string_view, 12> kMonths = {
    "january", "february", "march",     "april",   "may",      "june",
    "july",    "august",   "september", "october", "november", "december"};
constexpr std::array<std::string_view, 7> kWeekdays = {
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"};
constexpr std::array<std::string_view, 20> kOnes = {
    "zero",     "one",     "two",     "three",     "four",     "five",    "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<std::string_view, 20> kOrdinals = {
    "zeroth",     "first",     "second",    "third",       "fourth",     "fifth",     "sixth",
    "seventh",    "eighth",    "ninth",     "tenth",       "eleventh",   "twelfth",   "thirteenth",
    "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"};
constexpr std::array<std::string_view, 10> kTens = {
    "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::array<std::string_view, 10> kTenths = {
    "",         "",         "twentieth",  "thirtieth", "fortieth",
    "fiftieth", "sixtieth", "seventieth", "eightieth", "ninetieth"};

// Words of the grammar that are long enough to be known when misspelt.
constexpr std::array<std::string_view, 14> kKeywords = {
    "yesterday",  "session",     "sessions", "conversation", "conversations",
    "discussion", "discussions", "previous", "earlier",      "penultimate",
    "fortnight",  "afternoon",   "morning",  "evening"};

// Words near a name that are no slips of it.
constexpr std::array<std::string_view, 36> kNotNames = {
    "remember", "precious", "mourning", "conversion", "conversions", "remembers",
    "member",   "match",    "marsh",    "marcy",      "marc",        "jane",
    "judy",     "jude",     "julie",    "junk",       "jury",        "someday",
    "midday",   "sundae",   "payday",   "holiday",    "birthday",    "weekday",
    "today",    "everyday", "workday",  "yearly",     "session",     "sessions",
    "passion",  "mission",  "warning",  "evenings",   "discussing",  "previously"};

constexpr std::array<std::string_view, 13> kShortMonths = {
    "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "febr"};
constexpr std::array<int, 13> kShortMonthValues = {1, 2, 3, 4, 6, 7, 8, 9, 9, 10, 11, 12, 2};
constexpr std::array<std::string_view, 12> kShortDays = {
    "wensday", "mon", "tue", "tues", "wed", "weds", "thu", "thurs", "thur", "fri", "sat", "sun"};
constexpr std::array<int, 12> kShortDayValues = {3, 1, 2, 2, 3, 3, 4, 4, 4, 5, 6, 7};

template <class Array>
int index_of(const Array& list, std::string_view word) {
  const auto* at = std::find(list.begin(), list.end(), word);
  return at == list.end() ? -1 : static_cast<int>(at - list.begin());
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_dash(std::string_view rest) {
  return rest.starts_with("\xe2\x80\x93") || rest.starts_with("\xe2\x80\x94") ||
         rest.starts_with("\xe2\x80\x90") || rest.starts_with("\xe2\x80\x91");
}
bool is_apostrophe(std::string_view rest) {
  return rest.starts_with("'") || rest.starts_with("\xe2\x80\x99");
}

// The nearest name within `slips`, unless another word is meant.
template <class Array>
int near_index(const Array& list, std::string_view word, int64_t slips) {
  if (index_of(kNotNames, word) >= 0) return -1;
  int best = -1;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].empty() || list[i][0] != word[0]) continue;
    const int64_t longer = static_cast<int64_t>(list[i].size()) - static_cast<int64_t>(word.size());
    if (longer > slips || longer < -slips) continue;
    if (const int64_t d = edit_distance(list[i], word); d <= slips) {
      slips = d - 1;
      best = static_cast<int>(i);
    }
  }
  return best;
}

void name_month(TimeToken& t) {
  if (const int full = index_of(kMonths, t.text); full >= 0) {
    t.month = full + 1;
    t.sure = t.month != 3 && t.month != 5;  // to march, may
    return;
  }
  if (const int at = index_of(kShortMonths, t.text); at >= 0) {
    t.month = kShortMonthValues[static_cast<size_t>(at)];
    t.sure = false;
    return;
  }
  if (t.text.size() < 3) return;
  const int64_t slips = t.text.size() >= 8 ? 2 : 1;
  const int near = near_index(kMonths, t.text, slips);
  if (near < 0 || near == 4) return;
  const bool is_long = kMonths[static_cast<size_t>(near)].size() >= 6;
  if (!is_long && edit_distance(kMonths[static_cast<size_t>(near)], t.text) > 1) return;
  if (!is_long && t.text.size() < 3) return;
  t.month = near + 1;
  t.sure = is_long;
}

void name_weekday(TimeToken& t) {
  std::string_view word = t.text;
  if (word.size() > 6 && word.ends_with("s") && index_of(kWeekdays, word) < 0) {
    t.plural = index_of(kWeekdays, word.substr(0, word.size() - 1)) >= 0;
    if (t.plural) word.remove_suffix(1);
  }
  if (const int full = index_of(kWeekdays, word); full >= 0) {
    t.weekday = full + 1;
    return;
  }
  if (const int at = index_of(kShortDays, word); at >= 0) {
    t.weekday = kShortDayValues[static_cast<size_t>(at)];
    t.sure = false;
    return;
  }
  if (word.size() < 5) return;
  const int near = near_index(kWeekdays, word, word.size() >= 8 ? 2 : 1);
  if (near >= 0) t.weekday = near + 1;
}

void name(TimeToken& t) {
  name_month(t);
  if (t.month == 0) name_weekday(t);
  if (t.month != 0 || t.weekday != 0 || t.text.size() < 6) return;
  const int64_t slips = t.text.size() >= 9 ? 2 : 1;
  if (index_of(kKeywords, t.text) >= 0) return;
  if (const int near = near_index(kKeywords, t.text, slips); near >= 0) {
    t.text = kKeywords[static_cast<size_t>(near)];
  }
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<TimeToken> run() {
    while (at_ < text_.size() && tokens_.size() < kMaxTokens) step();
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return text_.substr(at_); }

  void push(Kind kind, std::string text, size_t begin) {
    TimeToken t;
    t.kind = kind;
    t.capital = text_[begin] >= 'A' && text_[begin] <= 'Z';
    t.text = std::move(text);
    t.begin = begin;
    t.end = at_;
    tokens_.push_back(std::move(t));
  }

  void step() {
    const char c = text_[at_];
    const size_t begin = at_;
    if (is_dash(rest())) {
      at_ += 3;
      push(Kind::mark, "-", begin);
    } else if (is_apostrophe(rest())) {
      apostrophe();
    } else if (is_digit(c)) {
      number();
    } else if (is_letter(c)) {
      word();
    } else {
      ++at_;
      if (c == '&') {
        push(Kind::word, "and", begin);
      } else if (std::string_view("-/.,:;#?!()\n").find(c) != std::string_view::npos) {
        // A hyphen inside a word joins it; the parts are words of their own.
        const bool inside = c == '-' && begin > 0 && is_letter(text_[begin - 1]) &&
                            at_ < text_.size() && is_letter(text_[at_]);
        if (!inside) push(Kind::mark, std::string(1, c == '\n' ? '.' : c), begin);
      }
    }
  }

  // "today's" is today; "'23" is a year.
  void apostrophe() {
    at_ += text_[at_] == '\'' ? 1 : 3;
    const bool after_word = !tokens_.empty() && tokens_.back().kind == Kind::word;
    if (after_word && (rest().starts_with("s") || rest().starts_with("S")) &&
        (at_ + 1 == text_.size() || !is_letter(text_[at_ + 1]))) {
      ++at_;
    } else if (at_ + 2 <= text_.size() && is_digit(text_[at_]) && is_digit(text_[at_ + 1]) &&
               (at_ + 2 == text_.size() || !is_digit(text_[at_ + 2]))) {
      const size_t begin = at_;
      const int64_t year = 2000 + (text_[at_] - '0') * 10 + (text_[at_ + 1] - '0');
      at_ += 2;
      push(Kind::number, std::to_string(year), begin);
      tokens_.back().value = year;
      tokens_.back().digits = 4;
    }
  }

  void number() {
    const size_t begin = at_;
    int64_t value = 0;
    while (at_ < text_.size() && is_digit(text_[at_])) {
      if (value < 1'000'000'000) value = value * 10 + (text_[at_] - '0');
      ++at_;
    }
    const auto digits = static_cast<int>(std::min<size_t>(at_ - begin, 20));
    std::string suffix;
    for (size_t i = at_; i < text_.size() && suffix.size() < 3 && is_letter(text_[i]); ++i) {
      suffix += static_cast<char>(text_[i] | 0x20);
    }
    const bool ordinal = suffix == "st" || suffix == "nd" || suffix == "rd" || suffix == "th";
    if (ordinal) at_ += 2;
    push(ordinal ? Kind::ordinal : Kind::number, std::string(text_.substr(begin, at_ - begin)),
         begin);
    tokens_.back().value = value;
    tokens_.back().digits = digits;
  }

  void word() {
    const size_t begin = at_;
    std::string lower;
    while (at_ < text_.size() && is_letter(text_[at_]) && !is_dash(rest()) &&
           !is_apostrophe(rest())) {
      const char c = text_[at_];
      lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      ++at_;
    }
    push(Kind::word, std::move(lower), begin);
    name(tokens_.back());
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<TimeToken> tokens_;
};

// What a single word says as a number: units below twenty, tens, and the same as ordinals.
struct Spoken {
  int64_t value;
  bool ordinal;
  bool is_ten;
};
std::optional<Spoken> spoken(const TimeToken& t) {
  if (t.kind != Kind::word || t.text.size() < 3) return std::nullopt;
  if (const int at = index_of(kOnes, t.text); at >= 0) return Spoken{at, false, false};
  if (const int at = index_of(kOrdinals, t.text); at >= 0) return Spoken{at, true, false};
  if (const int at = index_of(kTens, t.text); at >= 2) return Spoken{10 * at, false, true};
  if (const int at = index_of(kTenths, t.text); at >= 2) return Spoken{10 * at, true, false};
  if (t.text == "fourty") return Spoken{40, false, true};
  if (t.text == "twelveth") return Spoken{12, true, false};
  if (t.text == "nineth") return Spoken{9, true, false};
  if (t.text == "hundredth") return Spoken{100, true, false};
  return std::nullopt;
}

bool is_word(const std::vector<TimeToken>& t, size_t i, std::string_view text) {
  return i < t.size() && t[i].kind == Kind::word && t[i].text == text;
}

// "one hundred and twenty first" from i: its value, and the token after it.
struct NumberRun {
  int64_t value = 0;
  bool ordinal = false;
  size_t end = 0;
};
std::optional<NumberRun> number_run(const std::vector<TimeToken>& t, size_t i) {
  NumberRun run;
  const auto first = spoken(t[i]);
  const bool a_hundred = is_word(t, i, "a") && is_word(t, i + 1, "hundred");
  if (!first && !a_hundred) return std::nullopt;
  size_t at = i;
  if (a_hundred ||
      (is_word(t, i + 1, "hundred") && first && !first->ordinal && first->value < 10)) {
    run.value = 100 * (a_hundred ? 1 : first->value);
    at = i + 2;
    run.end = at;
    if (is_word(t, at, "and") && at + 1 < t.size() && spoken(t[at + 1])) ++at;
    if (at >= t.size() || !spoken(t[at])) return run;
  }
  const auto big = spoken(t[at]);
  run.value += big->value;
  run.ordinal = big->ordinal;
  run.end = at + 1;
  if (big->is_ten && run.end < t.size()) {
    const auto small = spoken(t[run.end]);
    if (small && !small->is_ten && small->value >= 1 && small->value <= 9) {
      run.value += small->value;
      run.ordinal = small->ordinal;
      ++run.end;
    }
  }
  return run;
}

// Spoken numbers become one token each.
std::vector<TimeToken> with_numbers(std::vector<TimeToken> in) {
  std::vector<TimeToken> out;
  for (size_t i = 0; i < in.size();) {
    const auto run = number_run(in, i);
    if (!run) {
      out.push_back(std::move(in[i++]));
      continue;
    }
    TimeToken t = in[i];
    t.kind = run->ordinal ? Kind::ordinal : Kind::number;
    t.value = run->value;
    t.end = in[run->end - 1].end;
    t.month = t.weekday = 0;
    out.push_back(std::move(t));
    i = run->end;
  }
  return out;
}

}  // namespace

std::vector<TimeToken> time_tokens(std::string_view text) {
  return with_numbers(Lexer(text).run());
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// A question to rows: what it says about time (or what was said before it), filters, search.
#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/memory.h"
#include "tephra/retrieve/memory/question.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

using RefKind = TimeRef::Kind;

constexpr size_t kLookBack = 6;      // turns before the question
constexpr int64_t kFillFactor = 5;   // of k: a time with as few turns as this is short
constexpr double kRareShare = 0.03;  // of all turns: a single word as rare as this is a subject
constexpr double kFewRows = 5;       // and as many as this are few in any memory

// A phrase of time, in the words it was found in.
struct Said {
  TimePhrase phrase;
  std::string words;
};

struct Filter {
  Step step;
  std::string words;
  int strength = 0;
};

// What is counted from now yields to what names its date, which may be a part of the subject:
// "the dog she got a month ago, as mentioned on May 5".
int strength(const TimePhrase& phrase) {
  if (phrase.first.weak) return 1;
  switch (phrase.first.kind) {
    case RefKind::ago:
    case RefKind::days_back:
    case RefKind::last_units:
    case RefKind::calendar_unit:
    case RefKind::weekday:
    case RefKind::weekday_of_week:
    case RefKind::weekend:
    case RefKind::every_session:
      return 2;
    case RefKind::clock:
      return 1;
    default:
      return 3;
  }
}

// The phrases lie where they were found: in the text after its repair.
std::vector<Said> said_in(std::string_view asked, const std::vector<TimePhrase>& times) {
  const std::string text = lossy_utf8(asked);
  std::vector<Said> out;
  for (const TimePhrase& t : times) {
    out.push_back({t, clipped(std::string_view(text).substr(t.begin, t.end - t.begin), 80)});
  }
  return out;
}

bool is_offset(const Said& said) { return said.phrase.first.kind == RefKind::offset; }

// "the last time we spoke today", "today's first chat": today, but not this conversation.
void join_today(std::vector<Said>& said) {
  const auto is_today = [](const Said& s) {
    return s.phrase.first.kind == RefKind::earlier_today ||
           (s.phrase.first.kind == RefKind::days_back && s.phrase.first.n == 0);
  };
  const auto is_last = [](const Said& s) {
    return (s.phrase.first.kind == RefKind::sessions_ago ||
            s.phrase.first.kind == RefKind::session) &&
           s.phrase.first.n == 1;
  };
  const auto today = std::find_if(said.begin(), said.end(), is_today);
  if (today == said.end() || std::none_of(said.begin(), said.end(), is_last)) return;
  today->phrase.first.kind = RefKind::earlier_today;
  today->phrase.first.n = today->phrase.first.last_n = 0;
  std::erase_if(said, is_last);
}

class Finder {
 public:
  Finder(const TurnTable& table, TurnIndex& index, const MemoryQuery& query)
      : table_(table),
        index_(index),
        query_(query),
        resolver_(table, {query.now.value_or(table.time(table.rows() - 1)), query.session}),
        question_(read_memory_question(query.question, table.speaker_names(), query.asker)) {}

  MemoryAnswer run() {
    look_back();
    filter();
    if (question_.terms.empty()) {
      by_speaker();
      all_kept();
    } else {
      search();
    }
    answer_.kept = row_count(rows_);
    return std::move(answer_);
  }

 private:
  template <class... Args>
  void explain(FormatString<Args...> text, const Args&... args) {
    answer_.explanation.push_back(tephra::format<Args...>(text, args...));
  }

  // A vague question takes its time, and if it has none its subject, from the turns before it.
  void look_back() {
    said_ = said_in(query_.question, question_.times);
    const bool counts_on = std::any_of(said_.begin(), said_.end(), is_offset);
    const bool vague = said_.empty() && (question_.terms.empty() || question_.refers_back);
    if (query_.before.empty() || !(vague || counts_on)) return;
    // A turn that speaks of speaking comes before one that only says how late it is.
    if (take_time_before(true) || take_time_before(false)) return;
    if (!vague || !question_.terms.empty()) return;
    const size_t count = query_.before.size();
    for (size_t i = count; i-- > 0 && count - i <= kLookBack;) {
      const MemoryQuestion before =
          read_memory_question(query_.before[i].text, table_.speaker_names(), query_.asker);
      if (before.terms.empty()) continue;
      explain("the subject is taken from what was said before: '{}'",
              clipped(query_.before[i].text, 80));
      question_.terms = before.terms;
      question_.words = before.words;
      question_.certain = true;
      return;
    }
  }

  bool take_time_before(bool of_talk) {
    const size_t count = query_.before.size();
    for (size_t i = count; i-- > 0 && count - i <= kLookBack;) {
      const std::string& text = query_.before[i].text;
      if (of_talk && !speaks_of_talk(text)) continue;
      std::vector<TimePhrase> times = find_time_phrases(text);
      std::erase_if(times, [](const TimePhrase& t) {
        return t.first.kind == RefKind::offset || t.first.kind == RefKind::this_session;
      });
      if (times.empty()) continue;
      std::vector<Said> earlier = said_in(text, times);
      explain("the time is taken from what was said before: '{}'", earlier.front().words);
      said_.insert(said_.begin(), earlier.begin(), earlier.end());
      return true;
    }
    return false;
  }

  std::vector<Filter> resolved() {
    join_today(said_);
    std::vector<Filter> filters;
    for (const Said& said : said_) {
      const Step* base = filters.empty() ? nullptr : &filters.back().step;
      const auto step = resolver_.resolve(said.phrase, base);
      if (!step && is_offset(said)) {
        explain("'{}' points at nothing that was said before and is left aside", said.words);
        continue;
      }
      if (!step) {
        explain("'{}': there is no such date", said.words);
        no_such_date_ = true;
        continue;
      }
      if (is_offset(said)) {  // what it counts from was only a place to count from
        filters.back() = {*step, filters.back().words + ", " + said.words, 3};
      } else {
        filters.push_back({*step, said.words, strength(said.phrase)});
      }
    }
    std::stable_sort(filters.begin(), filters.end(),
                     [](const Filter& a, const Filter& b) { return a.strength > b.strength; });
    return filters;
  }

  void filter() {
    rows_ = all_rows(table_);
    std::vector<Filter> empty;
    RowSet before_last = rows_;
    int last_strength = 0;
    const std::vector<Filter> filters = resolved();
    if (filters.empty() && no_such_date_ && question_.terms.empty()) rows_.clear();
    for (const Filter& f : filters) {
      const RowSet left = keep(table_, rows_, f.step);
      if (!left.empty()) {
        before_last = rows_;
        rows_ = left;
        last_strength = f.strength;
        answer_.chain.push_back(f.step);
        explain("'{}' is {}: {} of {} turns", f.words, to_text(f.step), row_count(left),
                table_.rows());
      } else if (!answer_.chain.empty() && f.strength == last_strength && f.strength > 1 &&
                 !keep(table_, before_last, f.step).empty()) {
        Step& last = answer_.chain.back();  // both cannot hold at once: either is meant
        last.insert(last.end(), f.step.begin(), f.step.end());
        rows_ = keep(table_, before_last, last);
        explain("or '{}', which is {}: {} turns in all", f.words, to_text(f.step),
                row_count(rows_));
      } else {
        empty.push_back(f);
      }
    }
    for (const Filter& f : empty) {
      if (answer_.chain.empty()) {
        nothing_then(f);
        return;
      }
      explain("'{}' is {}, which leaves nothing beside the rest: left aside", f.words,
              to_text(f.step));
    }
  }

  // No turn at that time. With a subject it is looked for on the days beside it, then everywhere.
  void nothing_then(const Filter& f) {
    explain("'{}' is {}: no turns{}", f.words, to_text(f.step), nearest_day(f.step[0]));
    const Operator& op = f.step[0];
    if (!question_.terms.empty() && op.column == Column::date && op.kind == Operator::Kind::value) {
      const Step wider = {f_between(Column::date, op.values.front() - 1, op.values.front() + 1)};
      if (RowSet near = keep(table_, rows_, wider); !near.empty()) {
        rows_ = std::move(near);
        answer_.chain.push_back(wider);
        explain("taken with the days beside it: {}: {} turns", to_text(wider), row_count(rows_));
        return;
      }
    }
    if (!question_.terms.empty()) {
      explain("the subject is looked for at all times instead");
      return;
    }
    answer_.chain.push_back(f.step);
    rows_.clear();
  }

  std::string nearest_day(const Operator& op) const {
    if (op.column != Column::date) return "";
    const int64_t noon = op.values.front() * kDaySeconds + kDaySeconds / 2;
    const int64_t after = table_.rows_in_time(INT64_MIN, noon).end;
    std::string out;
    if (after > 0) out += "; the day before it is " + date_text(day_of(table_.time(after - 1)));
    if (after < table_.rows()) {
      out += format("{} the day after it {}", out.empty() ? ";" : ",",
                    date_text(day_of(table_.time(after))));
    }
    return out;
  }

  void by_speaker() {
    if (!question_.by_speaker || question_.speaker.empty()) return;
    const Step step = {f_speaker({question_.speaker})};
    if (RowSet left = keep(table_, rows_, step); !left.empty()) {
      rows_ = std::move(left);
      answer_.chain.push_back(step);
      explain("asks for {}: {}: {} turns", question_.speaker, to_text(step), row_count(rows_));
    }
  }

  void all_kept() {
    if (answer_.chain.empty() && !no_such_date_)
      explain("no time and no subject were understood: all turns are kept");
    answer_.rows.reserve(static_cast<size_t>(row_count(rows_)));
    for (const RowRange& r : rows_) {
      for (int64_t row = r.begin; row < r.end; ++row) answer_.rows.push_back({row, 0});
    }
  }

  std::string words() const {
    std::string out;
    for (const std::string& w : question_.words) out += (out.empty() ? "" : ", ") + w;
    return out;
  }

  void search() {
    const TurnSearch search{question_.terms, question_.speaker, query_.k};
    std::vector<ScoredRow> best = index_.search(table_, rows_, search);
    const bool filtered = !answer_.chain.empty();
    if (best.empty() && filtered) {
      explain("none of these turns speaks of {}: all of them are kept", words());
      all_kept();
      return;
    }
    if (filtered && !question_.certain && !is_subject()) {
      explain("{} may be no subject: all of these turns are kept", words());
      all_kept();
      return;
    }
    answer_.terms = question_.terms;
    answer_.ranked = true;
    answer_.rows = std::move(best);
    if (filtered) fill_up();
    explain("searched {} turns for {}{}: the best {}", row_count(rows_), words(),
            question_.speaker.empty() ? "" : ", rather said by " + question_.speaker,
            answer_.rows.size());
  }

  // The turns of a short time are worth reading even where they use other words than the question:
  // first those of the person asked about, then the others, as they were said.
  void fill_up() {
    if (row_count(rows_) > kFillFactor * query_.k) return;
    std::vector<ScoredRow> own, others;
    for (const RowRange& r : rows_) {
      for (int64_t row = r.begin; row < r.end; ++row) {
        const auto has = [&](const ScoredRow& s) { return s.row == row; };
        if (std::any_of(answer_.rows.begin(), answer_.rows.end(), has)) continue;
        (table_.speaker_name(row) == question_.speaker ? own : others).push_back({row, 0});
      }
    }
    own.insert(own.end(), others.begin(), others.end());
    for (const ScoredRow& row : own) {
      if (static_cast<int64_t>(answer_.rows.size()) >= query_.k) return;
      answer_.rows.push_back(row);
    }
  }

  // One or two words that stand in few turns are what a question is about.
  bool is_subject() {
    const int64_t with = index_.rows_with(table_, all_rows(table_), question_.terms);
    return static_cast<double>(with) <=
           std::max(kFewRows, kRareShare * static_cast<double>(table_.rows()));
  }

  const TurnTable& table_;
  TurnIndex& index_;
  const MemoryQuery& query_;
  TimeResolver resolver_;
  MemoryQuestion question_;
  std::vector<Said> said_;
  RowSet rows_;
  bool no_such_date_ = false;  // "February 30"
  MemoryAnswer answer_;
};

}  // namespace

MemoryAnswer Memory::query(const MemoryQuery& query) {
  require_data(table_.rows() > 0, "memory: it holds no turns yet; add some first");
  require(!trim(query.question).empty(), "memory: expected a question, got an empty one");
  require(query.k > 0, "memory: k: expected 1 or more, got {}", query.k);
  require(query.session >= 0 && query.session <= table_.sessions() + 1,
          "memory: session: expected 0 to {}, got {}", table_.sessions() + 1, query.session);
  return Finder(table_, index_, query).run();
}

}  // namespace tephra

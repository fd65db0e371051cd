// SPDX-License-Identifier: Apache-2.0
// Puts single references together: ranges, lists, open ends, "not this but the one before".
#include <algorithm>

#include "tephra/retrieve/memory/time_matcher.h"

namespace tephra {
namespace {

using RefKind = TimeRef::Kind;
using Bound = TimePhrase::Bound;

enum class Family { date, session, response, clock, bare, other };

Family family_of(const TimeRef& ref) {
  switch (ref.kind) {
    case RefKind::session:
    case RefKind::sessions_ago:
    case RefKind::last_sessions:
    case RefKind::first_sessions:
    case RefKind::this_session:
      return Family::session;
    case RefKind::response:
      return Family::response;
    case RefKind::clock:
      return Family::clock;
    case RefKind::bare:
      return Family::bare;
    case RefKind::offset:
    case RefKind::every_session:
      return Family::other;
    default:
      return Family::date;
  }
}

struct Atom {
  TimeRef ref;
  size_t begin;  // tokens
  size_t end;
};

constexpr std::string_view kFillers =
    "the|our|my|your|on|in|at|of|with|number|no|up|all|way|then|also|including|inclusive|from|"
    "sometime|about|around|it|session|sessions|dates|including";
constexpr std::string_view kRange =
    "to|through|thru|until|till|til|ending|ended|finishing|upto|ends|end";
constexpr std::string_view kCloses =
    "and|or|of|in|on|for|with|that|we|did|was|were|what|please|about|to|through|until|i|you|is|are|"
    "again|inclusive|me|do|does|can|could|would|have|had|which|how|when|who|respectively|during|"
    "time|"
    "times|he|she|they|please|ones|one";

class Assembler {
 public:
  explicit Assembler(std::string_view text) : words_(time_tokens(text)) {}

  std::vector<TimePhrase> run() {
    find_atoms();
    add_bare_numbers();
    drop_negated();
    std::vector<TimePhrase> phrases;
    for (size_t i = 0; i < atoms_.size();) i = take(i, phrases);
    std::erase_if(phrases, [](const TimePhrase& p) { return p.first.kind == RefKind::bare; });
    return phrases;
  }

 private:
  enum class Link { none, range, list };

  void find_atoms() {
    for (size_t i = 0; i < words_.size();) {
      // "talk about five days ago": the word belongs to the verb.
      const bool belongs = words_.is(i, "about|around|some|just|only|like|maybe|exactly");
      if (const auto m = belongs ? std::nullopt : words_.match(i)) {
        atoms_.push_back({m->ref, i, m->end});
        i = std::max(m->end, i + 1);
      } else {
        ++i;
      }
    }
  }

  // What joins two references, of which nothing but these tokens lies between.
  Link link(size_t begin, size_t end, bool between) const {
    if (end - begin > 6) return Link::none;
    bool range = false, list = false;
    for (size_t i = begin; i < end; ++i) {
      if (words_.is(i, kRange) || words_.mark(i, "-")) {
        range = true;
      } else if (words_.is(i, "and|or|plus|then") || words_.mark(i, ",")) {
        list = true;
      } else if (!words_.is(i, kFillers)) {
        return Link::none;
      }
    }
    if (range || (list && between)) return Link::range;
    return list ? Link::list : Link::none;
  }

  // Whether "between", or a "from" that "and" may close, comes before.
  bool is_between(size_t begin) const {
    for (size_t i = begin; i-- > 0 && begin - i <= 4;) {
      if (words_.is(i,
                    "between|betwixt|within|inside|starting|beginning|range|anywhere|span|period|"
                    "window|stretch|interval|bounded|limits|confines"))
        return true;
      if (!words_.is(i, kFillers) && !words_.session_noun(i)) return false;
    }
    return false;
  }

  bool is_free(size_t token) const {
    return std::none_of(atoms_.begin(), atoms_.end(),
                        [&](const Atom& a) { return a.begin <= token && token < a.end; });
  }

  // Whether a bare number may end here. That of a range of sessions may stand before any word that
  // does not count something else: "sessions 3 to 5 were fun".
  bool closes(size_t after, const TimeRef& ref, Link how) const {
    if (words_.ends(after) || words_.is(after, kCloses) || words_.mark(after, ",-") ||
        words_.session_noun(after) || (words_.mark(after, ":") && !words_.number(after + 1))) {
      return true;
    }
    return ref.kind == RefKind::session && how == Link::range && !words_.unit(after) &&
           !words_.mark(after, ":/%") && !words_.is(after, "am|pm|oclock|percent|people|times") &&
           words_.tokens()[after].month == 0;
  }

  static bool takes_bare(const TimeRef& ref) {
    return ref.kind == RefKind::session || ref.kind == RefKind::response ||
           ref.kind == RefKind::day || ref.kind == RefKind::clock ||
           ref.kind == RefKind::sessions_ago || ref.kind == RefKind::ago;
  }

  static TimeRef bare(int32_t n) {
    TimeRef ref;
    ref.kind = RefKind::bare;
    ref.n = n;
    return ref;
  }

  // "sessions 3, 5 and 7", "from the 5th to the 20th of March": numbers that share a noun.
  void add_bare_numbers() {
    for (size_t a = 0; a < atoms_.size() && atoms_.size() < 256; ++a) {
      if (!takes_bare(atoms_[a].ref) && atoms_[a].ref.kind != RefKind::bare) continue;
      const size_t begin = atoms_[a].end;
      for (size_t i = begin; i < begin + 6 && i < words_.size(); ++i) {
        if (!words_.counted(i)) continue;
        const Link how = link(begin, i, is_between(atoms_[a].begin));
        if (how != Link::none && closes(i + 1, atoms_[a].ref, how) && is_free(i) &&
            words_.value(i) < 100'000) {
          atoms_.insert(atoms_.begin() + static_cast<std::ptrdiff_t>(a) + 1,
                        Atom{bare(words_.value(i)), i, i + 1});
        }
        break;
      }
    }
    for (size_t a = atoms_.size(); a-- > 0;) {
      if (!takes_bare(atoms_[a].ref) && atoms_[a].ref.kind != RefKind::bare) continue;
      const size_t end = atoms_[a].begin;
      for (size_t i = end; i-- > 0 && end - i <= 6;) {
        if (!words_.counted(i)) continue;
        const Link how = link(i + 1, end, is_between(i));
        if (is_free(i) && how != Link::none && words_.value(i) < 100'000 && atoms_.size() < 256) {
          atoms_.insert(atoms_.begin() + static_cast<std::ptrdiff_t>(a),
                        Atom{bare(words_.value(i)), i, i + 1});
          ++a;
        }
        break;
      }
    }
  }

  // "not in March but in April". An offset still needs what it counts from.
  void drop_negated() {
    std::vector<Atom> kept;
    for (size_t a = 0; a < atoms_.size(); ++a) {
      bool negated = false;
      for (size_t i = atoms_[a].begin; i-- > 0 && atoms_[a].begin - i <= 4;) {
        if (words_.is(i, "not|except|excluding|besides")) negated = true;
        if (!words_.is(i, kFillers)) break;
      }
      const bool needed = a + 1 < atoms_.size() && atoms_[a + 1].ref.kind == RefKind::offset;
      if (negated && !needed && atoms_.size() > 1) continue;
      kept.push_back(atoms_[a]);
    }
    atoms_ = std::move(kept);
  }

  // A bare number becomes what its neighbour is.
  static TimeRef like(const TimeRef& bare, const TimeRef& other) {
    if (bare.kind != RefKind::bare) return bare;
    TimeRef ref = other;
    switch (other.kind) {
      case RefKind::day:
        ref.day = bare.n;
        break;
      case RefKind::clock:
        ref.n = bare.n % 24 * 3600 + (other.n >= 12 * 3600 && bare.n < 12 ? 12 * 3600 : 0);
        ref.last_n = ref.n + 3599;
        break;
      default:
        ref.n = ref.last_n = bare.n;
    }
    return ref;
  }

  bool joins(const Atom& a, const Atom& b, Link how) const {
    const Family x = family_of(a.ref), y = family_of(b.ref);
    if (how == Link::none || x == Family::other || y == Family::other) return false;
    if (x == Family::bare && y == Family::bare) return true;
    return x == y || x == Family::bare || y == Family::bare;
  }

  // One phrase from atom i on; returns the atom after it.
  size_t take(size_t i, std::vector<TimePhrase>& phrases) {
    std::vector<TimePhrase> parts;
    const size_t first = i;
    size_t last = i;
    parts.push_back({.first = atoms_[i].ref});
    while (last + 1 < atoms_.size()) {
      const Atom &a = atoms_[last], &b = atoms_[last + 1];
      const Link how =
          link(a.end, b.begin, parts.size() == 1 && !parts[0].last && is_between(a.begin));
      if (!joins(a, b, how)) break;
      if (how == Link::range && !parts.back().last) {
        parts.back().last = b.ref;
      } else {
        parts.push_back({.first = b.ref});
      }
      ++last;
    }
    settle(parts);
    TimePhrase phrase = parts[0];
    phrase.also.assign(parts.begin() + 1, parts.end());
    phrase.begin = words_.tokens()[atoms_[first].begin].begin;
    phrase.end = words_.tokens()[atoms_[last].end - 1].end;
    if (!phrase.last && phrase.also.empty()) phrase.bound = bound(atoms_[first]);
    phrases.push_back(std::move(phrase));
    return last + 1;
  }

  // Gives bare numbers their kind, and ends of ranges the year or month that only one of them says.
  static void settle(std::vector<TimePhrase>& parts) {
    TimeRef known;
    known.kind = RefKind::bare;
    const auto learn = [&](const TimeRef& ref) {
      if (ref.kind != RefKind::bare && known.kind == RefKind::bare) known = ref;
    };
    for (const TimePhrase& p : parts) {
      learn(p.first);
      if (p.last) learn(*p.last);
    }
    for (TimePhrase& p : parts) {
      if (p.last) {
        const TimeRef first = p.first;
        p.first = like(p.first, p.last->kind == RefKind::bare ? known : *p.last);
        p.last = like(*p.last, first.kind == RefKind::bare ? known : first);
        share_year(p.first, *p.last);
      } else {
        p.first = like(p.first, known);
      }
    }
    for (size_t i = parts.size(); i-- > 1;) {  // "May 3 and May 7, 2023"
      if (parts[i - 1].first.kind == RefKind::day && parts[i].first.kind == RefKind::day &&
          parts[i - 1].first.year == 0) {
        parts[i - 1].first.year = parts[i].first.year;
      }
    }
  }

  static void share_year(TimeRef& first, TimeRef& last) {
    const bool dates = (first.kind == RefKind::day || first.kind == RefKind::month) &&
                       (last.kind == RefKind::day || last.kind == RefKind::month);
    if (!dates) return;
    if (first.year == 0 && last.year != 0)
      first.year = last.year - (first.month > last.month ? 1 : 0);
    if (last.year == 0 && first.year != 0)
      last.year = first.year + (last.month < first.month ? 1 : 0);
  }

  Bound bound(const Atom& atom) const {
    const size_t after = atom.end;
    const bool onward = words_.is(after, "on|onward|onwards|forward|and") &&
                        (!words_.is(after, "on|and") || words_.ends(after + 1) ||
                         words_.is(after + 1, "onward|onwards|later|after|beyond|wards"));
    const bool to_now = words_.is(after, "to|until|till|up") &&
                        words_.is(words_.skip(after + 1, "to|until|the"), "now|date|present|today");
    for (size_t i = atom.begin; i-- > 0 && atom.begin - i <= 4;) {
      if (words_.is(i, "since")) return Bound::since;
      if (words_.is(i, "than") && i >= 2 && words_.is(i - 2, "no|not")) {
        return words_.is(i - 1, "earlier|sooner|before") ? Bound::since : Bound::until;
      }
      if (words_.is(i, "after|following")) return Bound::after;
      if (words_.is(i, "until|till|til")) return Bound::until;
      if (words_.is(i, "before|preceding")) return Bound::before;
      if (words_.is(i, "to") && i > 0 && words_.is(i - 1, "prior")) return Bound::before;
      if (words_.is(i, "to") && i > 0 && words_.is(i - 1, "up")) return Bound::until;
      if (words_.is(i, "starting|beginning|from") && (onward || to_now)) return Bound::since;
      if (words_.is(i, "starting|beginning")) return Bound::since;
      if (!words_.is(i, kFillers)) break;
    }
    return onward && words_.is(after, "onward|onwards|forward") ? Bound::since : Bound::none;
  }

  TimeMatcher words_;
  std::vector<Atom> atoms_;
};

}  // namespace

std::vector<TimePhrase> find_time_phrases(std::string_view text) { return Assembler(text).run(); }

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Sessions by number, by order, counted back; responses by number.
#include "tephra/retrieve/memory/time_matcher.h"

namespace tephra {
namespace {

using Match = TimeMatcher::Match;
using RefKind = TimeRef::Kind;

TimeMatch sessions(RefKind kind, int32_t n, size_t end) {
  TimeRef ref;
  ref.kind = kind;
  ref.n = ref.last_n = n;
  return {ref, end};
}

TimeMatch session_offset(int32_t n, size_t end) {
  TimeMatch m = sessions(RefKind::offset, n, end);
  m.ref.of_sessions = true;
  return m;
}

constexpr std::string_view kTalked =
    "talk|talked|talking|spoke|speak|spoken|chat|chatted|chatting|discuss|discussed|met|meet|"
    "converse|conversed|caught|connected|interacted|corresponded|messaged|texted|had|conversation";

}  // namespace

// "response number 26", "the 12th message", "turn 40".
Match TimeMatcher::response(size_t i) const {
  constexpr std::string_view kNouns =
      "response|responses|message|messages|turn|turns|utterance|"
      "utterances|reply|row|rows";
  if (is(i, kNouns)) {
    size_t at = skip(i + 1, "number|no|nr|num|numbers|nos");
    const bool named = at > i + 1 || mark(at, "#");
    while (mark(at, "#.")) ++at;
    if (number(at) && !unit(at + 1) && (named || !is(i, "reply|turns|turn") || ends(at + 1))) {
      return sessions(RefKind::response, value(at), at + 1);
    }
  }
  if (ordinal(i) && is(i + 1, "response|message|utterance")) {
    return sessions(RefKind::response, value(i) - 1, i + 2);  // rows count from 0
  }
  return std::nullopt;
}

Match TimeMatcher::session(size_t i) const {
  if (auto m = sessions_ago(i)) return m;
  if (is(i, "back|rewind|rewinding")) {  // "going back three sessions"
    if (const auto q = quantity(skip(i + 1, "by|to|just")); q && session_noun(q->end)) {
      return sessions(RefKind::sessions_ago, q->n, q->end + 1);
    }
  }
  if (auto m = numbered_session(i)) return m;
  if (auto m = session_before(i)) return m;
  if (auto m = ordinal_session(i)) return m;
  if (auto m = last_session(i)) return m;
  return other_session(i);
}

// "session 5", "chat #4", "conversation number twelve".
Match TimeMatcher::numbered_session(size_t i) const {
  if (!session_noun(i)) return std::nullopt;
  size_t at = skip(i + 1, "number|numbers|no|nos|nr|num|id");
  const bool named = at > i + 1 || mark(at, "#");
  while (mark(at, "#.")) ++at;
  if (!number(at) && !(named && ordinal(at))) return std::nullopt;
  if (at > i + 1 && !named) return std::nullopt;  // "our chat. 5 of them"
  const size_t next = at + 1;
  const bool other = unit(skip(next, "full|whole|calendar|entire")) || session_noun(next) ||
                     is(next,
                        "am|pm|oclock|fortnights|fortnight|"
                        "weekends|times|o") ||
                     (next < size() && tokens_[next].month != 0) || mark(next, ":/") ||
                     (tokens_[at].digits == 4 && !named && value(at) >= 1900 && value(at) <= 2200);
  const bool counts_more =
      is(next, "to|or|and") && number(next + 1) && (unit(next + 2).has_value());
  if (other || counts_more) return std::nullopt;
  if (mark(next, "-.") && number(next + 1) && mark(next + 2, "-.") && number(next + 3)) {
    return std::nullopt;  // a date
  }
  return sessions(RefKind::session, value(at), next);
}

// "our fifth session", "the 5th time we spoke", "the second to last chat", "the first three talks".
Match TimeMatcher::ordinal_session(size_t i) const {
  const bool beginning = is(i, "initial|opening|earliest|original");
  if (!ordinal(i) && !beginning) return std::nullopt;
  const int32_t n = beginning ? 1 : value(i);
  size_t at =
      skip(i + 1, "ever|real|proper|full|actual|long|big|and|only|very|of|our|the|my|overall");
  if (is(at, "to|from|before")) {
    const size_t last = skip(at + 1, "the");
    if (is(last, "last|latest|final|end")) {
      const size_t noun = skip(last + 1, "our|the");
      if (session_noun(noun) || is(noun, "time|one")) {
        return sessions(RefKind::sessions_ago, n, noun + 1);
      }
    }
    return std::nullopt;
  }
  if (is(at, "last|latest") &&
      (session_noun(at + 1) || (is(at + 1, "time") && talk_follows(at + 2)))) {
    return sessions(RefKind::sessions_ago, n, at + 2);
  }
  if (is(at, "most") && is(at + 1, "recent") && session_noun(at + 2)) {
    return sessions(RefKind::sessions_ago, n, at + 3);
  }
  if (n == 1) {
    if (const auto q = quantity(at);
        q && q->n >= 2 && (session_nouns(q->end) || is(q->end, "times"))) {
      return sessions(RefKind::first_sessions, q->last_n > q->n ? 3 : q->n, q->end + 1);
    }
  }
  if (session_noun(at)) return sessions(RefKind::session, n, at + 1);
  if (is(at, "time") && (talk_follows(at + 1) || talk_precedes(i))) {
    return sessions(RefKind::session, n, at + 1);
  }
  return std::nullopt;
}

// "our last chat", "the most recent session", "last time", "the last three conversations".
Match TimeMatcher::last_session(size_t i) const {
  size_t at = i;
  bool many_only = false;
  if (is(i, "most") && is(i + 1, "recent")) {
    at = i + 2;
  } else if (is(i, "last|previous|prior|latest|preceding|final|newest")) {
    at = i + 1;
  } else if (is(i, "past|recent")) {
    at = i + 1;
    many_only = true;
  } else {
    return std::nullopt;
  }
  if (const auto q = quantity(at);
      q && (session_nouns(q->end) || (is(q->end, "times") && talk_follows(q->end + 1)))) {
    return sessions(RefKind::last_sessions, q->last_n > q->n ? 3 : q->n, q->end + 1);
  }
  if (session_nouns(at) && is(i, "recent|latest|past|last|most")) {
    return sessions(RefKind::last_sessions, 3, at + 1);
  }
  if (many_only) return std::nullopt;
  if (session_noun(at)) {
    if (is(at + 1, "but") && number(at + 2)) {
      return sessions(RefKind::sessions_ago, 1 + value(at + 2), at + 3);
    }
    return sessions(RefKind::sessions_ago, 1, at + 1);
  }
  if (is(at, "but") && number(at + 1) && (session_noun(at + 2) || is(at + 2, "time"))) {
    return sessions(RefKind::sessions_ago, 1 + value(at + 1), at + 3);
  }
  if (is(at, "time") &&
      (ends(at + 1) || talk_follows(at + 1) ||
       is(at + 1, "around|round|out|today|please|and|what|can|could|did|were|was"))) {
    return sessions(RefKind::sessions_ago, 1, at + 1);
  }
  return std::nullopt;
}

// "three sessions ago", "two chats back", "a few conversations before this one".
Match TimeMatcher::sessions_ago(size_t i) const {
  const auto q = quantity(i);
  if (!q || !(session_noun(q->end) || is(q->end, "times|time"))) return std::nullopt;
  const bool times = is(q->end, "times|time");
  size_t at = q->end + 1;
  TimeMatch m = sessions(RefKind::sessions_ago, q->n, at);
  m.ref.last_n = q->last_n;
  const bool of_day = is(at, "earlier|prior") && is(at + 1, "in|on|today|than|that") &&
                      !(is(at + 1, "that") && is(at + 2, "we|i|you|us|our"));
  if (is(at, "ago|back|previously|prior|earlier") && !of_day) {
    m.end = skip(at + 1, "to|this|one|now|today");
    return m;
  }
  if (is(at, "in") && is(at + 1, "the") && is(at + 2, "past")) {
    m.end = at + 3;
    return m;
  }
  if (times) return std::nullopt;
  if (is(at, "before|preceding")) {
    const size_t what = skip(at + 1, "the|our|most|very");
    if (is(what, "this|now|today|current|present")) {
      m.end = skip(what + 1, "one|session|chat|conversation");
      return m;
    }
    if (is(what, "last|previous|latest|recent")) {
      m.ref.n += 1;
      m.ref.last_n += 1;
      m.end = skip(what + 1, "one|session|chat|conversation|time");
      return m;
    }
    if (is(what, "that|it")) return session_offset(-q->n, what + 1);
  }
  if (is(at, "later|after")) return session_offset(q->n, skip(at + 1, "that|it"));
  return std::nullopt;
}

// "the session before last", "the one before that", "the time before last", "the chat after that".
Match TimeMatcher::session_before(size_t i) const {
  const bool noun = session_noun(i);
  if (!noun && !is(i, "one|time")) return std::nullopt;
  size_t at = i + 1;
  if (is(at, "right|just|immediately")) ++at;
  if (is(at, "after|following")) {
    if (is(at + 1, "that|it")) return session_offset(1, at + 2);
    if (noun && ends(at + 1)) return session_offset(1, at + 1);
    return std::nullopt;
  }
  if (is(at, "prior") && is(at + 1, "to")) ++at;
  if (!is(at, "before|preceding|to")) return std::nullopt;
  size_t what = skip(at + 1, "the|our|my|very");
  if (is(what, "most") && is(what + 1, "recent")) ++what;
  if (is(what, "last|previous|latest|recent|prior")) {
    return sessions(RefKind::sessions_ago, 2,
                    skip(what + 1, "one|session|chat|conversation|discussion|talk|time"));
  }
  if (is(at, "to")) return std::nullopt;
  if (is(what, "this|current|now")) {
    return sessions(RefKind::sessions_ago, 1, skip(what + 1, "one|session|chat|conversation"));
  }
  if (is(what, "that|it")) return session_offset(-1, skip(what + 1, "one"));
  if (noun && ends(what)) return session_offset(-1, what);
  return std::nullopt;
}

Match TimeMatcher::other_session(size_t i) const {
  if (is(i, "penultimate|antepenultimate") && (session_noun(i + 1) || is(i + 1, "time|one"))) {
    return sessions(RefKind::sessions_ago, is(i, "penultimate") ? 2 : 3, i + 2);
  }
  if (is(i, "next") && is(i + 1, "to") && is(i + 2, "last") &&
      (session_noun(i + 3) || is(i + 3, "time|one"))) {
    return sessions(RefKind::sessions_ago, 2, i + 4);
  }
  if (is(i, "this|current|present|ongoing|todays") && session_noun(i + 1) &&
      !session_nouns(i + 1)) {
    return sessions(RefKind::this_session, 0, i + 2);
  }
  if (is(i, "next|following|subsequent") && before(i, "the") &&
      (session_noun(i + 1) || is(i + 1, "one"))) {
    return session_offset(1, i + 2);
  }
  if (is(i, "we|i|us|you")) {  // "when we last spoke", "we first ever talked"
    size_t at = skip(i + 1, "both|two|ever|actually|most|very|and|i|you|all|had");
    const bool first = is(at, "first");
    if ((first || is(at, "last|recently")) && is(skip(at + 1, "ever|actually|properly"), kTalked)) {
      return sessions(first ? RefKind::session : RefKind::sessions_ago, 1,
                      skip(at + 1, "ever|actually|properly") + 1);
    }
  }
  if (is(i, "first|last") && is(i + 1, kTalked) && !is(i + 1, "had") && before(i, "we|i|you")) {
    return sessions(is(i, "first") ? RefKind::session : RefKind::sessions_ago, 1, i + 2);
  }
  if (is(i, "all|every|each|any")) {
    const size_t noun = skip(i + 1, "of|our|the|these|those|past|previous|single|one");
    if (session_noun(noun) && !is(i, "any")) return sessions(RefKind::every_session, 0, noun + 1);
  }
  return std::nullopt;
}

// "... time we spoke", "... time that you and I had a talk".
bool TimeMatcher::talk_follows(size_t i) const {
  size_t at = i;
  size_t people = 0;
  while (at < i + 8 && is(at,
                          "that|when|we|you|i|and|us|two|both|of|me|ever|actually|the|had|have|"
                          "were|was|properly|really|got|'ve|ve")) {
    people += is(at, "we|you|i|us|me") ? 1 : 0;
    ++at;
  }
  return people > 0 && (is(at, kTalked) || is(at, "touch|together|in|a|chats|talks"));
}

// "when we spoke for the fifth time".
bool TimeMatcher::talk_precedes(size_t i) const {
  for (size_t at = i; at-- > 0 && i - at <= 5;) {
    if (is(at, kTalked)) return true;
    if (!is(at, "for|the|our|on|with|each|other|just|to|you|me|very")) return false;
  }
  return false;
}

}  // namespace tephra

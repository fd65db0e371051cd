#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second set of questions about time, in other words again, and with content.

Written after the grammar by somebody who had not read it, and put to it once before anything was changed
(bench/results has that figure). It takes the conversations and meanings of make_memory_questions.py and none of
its wordings; content questions ask for two rare words of one turn at a time that is right for it.

  tools/make_more_memory_questions.py --conversations DIR/ConversationData --out /tmp/more
  tools/make_more_memory_questions.py --make 3 --out /tmp/made --per-item 2
"""
import re

import make_memory_questions as base
from make_memory_questions import DAYS, MONTHS, nth, spoken, words

base.FRAMES = [
    "What had we been discussing {}?", "I need a refresher on our exchange {}.",
    "Walk me through our dialogue {}.", "Anything noteworthy that came up {}?",
    "Would you mind repeating what got said {}?", "{C}: what were the subjects?",
    "Look back at {n} and give me the highlights.", "I'm trying to remember {n}.",
    "Fetch the messages exchanged {}.", "Help me recollect {n}, would you?",
    "How did our talk {} go?", "Which things came up when we talked {}?",
    "Quick question: what did we cover {}?", "Let's review {n}.",
    "Print every message sent {}.", "what all did u and i say {}",
    "There was something we went through {} - what was it?", "Give me a rundown of {n}",
]
base.OPENERS = [
    "Our talk {} just crossed my mind.", "{C} we exchanged a few messages.",
    "You'll recall that we chatted {}.", "Something from {n} is bugging me.",
    "Wasn't it {} that we had that long chat?",
]
base.ANSWERS = ["Indeed!", "Hm, yes, I believe so.", "It was. Why do you ask?", "Absolutely, go on."]
base.SMALL = [("The train is delayed once more.", "That's annoying."),
              ("My neighbour plays the trumpet badly.", "Poor you!")]
base.REQUESTS = ["Please recap it.", "Remind me of the details.", "What had been said back then?",
                 "Could I get a digest of that one?", "Repeat what we covered.", "Give me all of it, word for word."]


def date_phrases(d, years):
    m, n, w = MONTHS[d.month - 1], d.day, DAYS[d.weekday()]
    full = [f"on the {nth(n)} day of {m} {d.year}", f"on {w[:3]} {n} {m[:3]} {d.year}",
            f"on {m} {nth(n)} {d.year}", f"on the date {d.isoformat()}", f"on {n} {m}, {d.year}",
            f"on {w}, the {nth(n)} of {m} {d.year}", f"on {d.year} {m} {n}",
            f"dated {m} {n}, {d.year}"]
    short = [f"on the day of {m} {nth(n)}", f"on {w[:3]} {m} {n}", f"on {n} of {m}",
             f"on that {w}, {m} {n}", f"that day, the {nth(n)} of {m}", f"on {m[:3]} {nth(n)}",
             f"on the {spoken(n)} day of {m}", f"way back on {m} {nth(n)}"]
    return full + (short if years == 1 else [])


def date_span_phrases(a, b, years):
    ma, mb = MONTHS[a.month - 1], MONTHS[b.month - 1]
    full = [f"since {ma} {a.day}, {a.year} and up to {mb} {b.day}, {b.year}",
            f"from {ma} {nth(a.day)} {a.year} up until {mb} {nth(b.day)} {b.year}",
            f"within the dates {a} and {b}", f"{a} to {b}", f"at some point between {a} and {b}"]
    short = [f"any time from {ma} {a.day} up to {mb} {b.day}",
             f"between {a.day} {ma} and {b.day} {mb}", f"from {ma[:3]} {nth(a.day)} through {mb[:3]} {nth(b.day)}",
             f"in the stretch between {ma} {nth(a.day)} and {mb} {nth(b.day)}",
             f"from the {nth(a.day)} of {ma} up to and including the {nth(b.day)} of {mb}"]
    return full + (short if years == 1 else [])


def month_phrases(d, years):
    m = MONTHS[d.month - 1]
    full = [f"in the month of {m} {d.year}", f"sometime in {m} {d.year}", f"in {m}, {d.year}",
            f"all through {m} {d.year}", f"at some point during {m} of {d.year}"]
    short = [f"sometime during {m}", f"all {m} long", f"over {m}", f"in {m[:3]}.", f"for the whole of {m}",
             f"across {m}"]
    return full + (short if years == 1 else [])


def rel_month_phrases(n):
    special = {0: ["during this very month", "within the present month", "since the month began"],
               1: ["in the preceding month", "the month that just ended", "one month back"],
               2: ["two months prior", "the month preceding last month"]}.get(n, [])
    many = [f"{n} months prior", f"roughly {words(n)} months ago", f"about {n} months back",
            f"{words(n)} calendar months ago", f"{n} full months ago"]
    return special if n < 2 else special + many


def rel_day_phrases(n):
    special = {1: ["the previous day", "on the day preceding today", "1 day back"],
               2: ["two days prior", "the day preceding yesterday"],
               7: ["one week ago", "7 days ago to the day"], 14: ["two weeks ago"],
               21: ["three weeks back"]}.get(n, [])
    many = [f"{n} days in the past", f"{words(n)} days prior", f"precisely {n} days ago",
            f"some {words(n)} days back", f"{n}d ago", f"{words(n)} days before now"]
    return special if n < 2 else special + many


def day_span_phrases(n):
    special = {7: ["since this time last week", "within the past week"], 14: ["inside the last two weeks"],
               30: ["over the last thirty days"]}.get(n, [])
    return special + [f"in the {n} most recent days", f"these last {words(n)} days",
                      f"throughout the past {n} days", f"the past {n} days",
                      f"in the {words(n)} days leading up to now"]


def named_day_phrases(w):
    return [f"on {w} last", f"this last {w}", f"the {w} that just passed", f"on our latest {w}",
            f"on the last {w}", f"back on {w}"]


base.EARLIER_TODAY = ["today before now", "earlier in the day", "a few hours ago today",
                      "in today's first conversation", "today, prior to this conversation",
                      "in the chat we already had today", "hours ago, today"]
THINGS = ["exchange", "dialogue", "conversation", "session", "meeting", "chat"]


def session_phrases(k, rng):
    t = rng.choice(THINGS)
    special = {1: [f"in the opening {t}", "when we met for the very first time", f"in the initial {t}"],
               2: [f"in the {t} right after our first one"]}.get(k, [])
    return special + [f"in {t} no {k}", f"in the {spoken(k)} of our {t}s", f"in {t} nr. {k}",
                      f"in our {t} number {k}", f"in the {nth(k)} {t} we've had",
                      f"the {nth(k)} time that we chatted", f"on our {nth(k)} {t}", f"at {t} {words(k)}"]


def rel_session_phrases(n, rng):
    t = rng.choice(THINGS)
    special = {1: [f"in the {t} just before this one", f"in our latest {t}", "the time we last chatted",
                   f"in the {t} preceding this one", "last time around"],
               2: [f"two {t}s prior", f"in the next to last {t}", "the time before the last time"],
               3: [f"three {t}s prior"]}.get(n, [])
    many = [f"{n} {t}s prior", f"{words(n)} {t}s prior to this one", f"{words(n)} {t}s in the past",
            f"going {words(n)} {t}s back"]
    return special if n == 1 else special + many


def session_span_phrases(a, b, rng):
    t = rng.choice(THINGS)
    special = [f"in the initial {words(b)} {t}s", f"throughout the first {b} {t}s"] if a == 1 else []
    return special + [f"in {t}s {a} through {b}", f"from {t} no. {a} up to {t} no. {b}",
                      f"across {t}s {a} to {b}", f"in {t}s {words(a)} to {words(b)}",
                      f"from the {nth(a)} {t} up to the {nth(b)}", f"between {t}s {a} and {b}"]


for function in (date_phrases, date_span_phrases, month_phrases, rel_month_phrases, rel_day_phrases,
                 day_span_phrases, named_day_phrases, session_phrases, rel_session_phrases, session_span_phrases):
    setattr(base, function.__name__, function)

CONTENT_FRAMES = ["What was mentioned {} regarding {a} and {b}?", "{C}, somebody brought up {a} and {b}; what was it?",
                  "Find the message {} that has to do with {a} or {b}.",
                  "{s} said something {} involving {a} and {b}. What?"]


def content_items(raw, rng, count=25):
    """Questions for one turn each: two words that are rare in the conversation, and when it was said."""
    c = base.Conversation(raw)
    turns = [r for k in range(1, c.sessions + 1) for r in raw[f"session_{k}"]]
    bag = [set(re.findall(r"[a-z]{5,}", r["text"].lower())) for r in turns]
    times = {}
    for b in bag:
        for w in b:
            times[w] = times.get(w, 0) + 1
    able = [i for i, b in enumerate(bag) if sum(times[w] <= 2 for w in b) >= 2]
    for i in rng.sample(able, min(count, len(able))):
        a, b = rng.sample(sorted(w for w in bag[i] if times[w] <= 2), 2)
        number, session, time = c.rows[i]
        when = rng.choice([rng.choice(date_phrases(time.date(), c.years)), rng.choice(session_phrases(session, rng)),
                           rng.choice(month_phrases(time.date(), c.years))])
        frame = rng.choice(CONTENT_FRAMES).replace("{a}", a).replace("{b}", b).replace("{s}", turns[i]["speaker"])
        yield {"questions": [base.ask(frame, when)], "relevant_docs": [number]}


base.content_items = content_items

if __name__ == "__main__":
    base.main(__doc__)

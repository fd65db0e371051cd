#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Questions about time, for `tephra bench memory`, in words of their own.

Reads conversations (ConversationData/*.json) or makes some, and writes a folder of the same layout
with questions about them and the responses each one means. It shares nothing with the grammar it
tests: the phrases below were written down before the grammar was, and none was added or taken away to
please it; what each means follows the published set. Phrase (when) times frame (what is asked) times item, sampled with a seed.

  tools/make_memory_questions.py --conversations DIR/ConversationData --out /tmp/paraphrases
  tools/make_memory_questions.py --make 3 --out /tmp/made --per-item 2
"""
import argparse
import collections
import datetime as dt
import json
import pathlib
import random

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen").split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = ("zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
            "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth").split()
MONTHS = ("January February March April May June July August September October November "
          "December").split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
SLIPS = {"January": "Janaury", "February": "Febuary", "March": "Mrach", "April": "Apirl",
         "August": "Agust", "September": "Septmber", "October": "Ocotber", "November": "Novmber",
         "December": "Decmber", "July": "Jully", "June": "Jne", "May": "May"}


def words(n):
    if n >= 100:
        rest = " and " + words(n % 100) if n % 100 else ""
        return f"{ONES[n // 100]} hundred{rest}"
    if n < 20:
        return ONES[n]
    return TENS[n // 10] + ("-" + ONES[n % 10] if n % 10 else "")


def spoken(n):
    if n < 20:
        return ORDINALS[n]
    return TENS[n // 10] + "-" + ORDINALS[n % 10] if n % 10 else TENS[n // 10][:-1] + "ieth"


def nth(n):
    end = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{end}"


# What is asked; {} is when. The first list needs a phrase that can stand after a verb.
FRAMES = [
    "What did we talk about {}?", "Remind me what came up {}.", "what were we chatting about {}",
    "Could you give me a recap of the things we went over {}?", "I'd like to revisit what was said {}.",
    "Pull up everything from {n}.", "Show me {n}, please.", "Summarise {n} for me",
    "Which topics did we touch on {}?", "Hey, do you still have what we said {}?",
    "{C}, what exactly did I tell you?", "{C} we spoke; list all of it.",
    "Can you go through {n} with me again?", "Tell me everything you remember from {n}",
    "I can't recall what we were on about {}, help me out", "What was on our minds {}?",
    "Bring back {n}", "I want the full transcript of {n}.", "Did anything interesting get mentioned {}?",
    "Please look up what the two of us discussed {}.",
]

# Context turns for vague requests: statement of the time, an answer, perhaps small talk, the request.
OPENERS = [
    "I was thinking about {n}.", "Do you remember what we talked about {}?",
    "I keep coming back to what we said {}.", "{C} we had a good talk.", "My notes mention {n}.",
    "We spoke {}, right?",
]
ANSWERS = ["Yes, I remember.", "Of course! What about it?", "Sure, that was a nice one.",
           "I do. Is there something on your mind?", "Right, that rings a bell."]
SMALL = [("It has been raining all morning here.", "Sounds cosy!"),
         ("My coffee went cold again.", "Time for a fresh cup then."),
         ("I am a bit tired, to be honest.", "Take it easy.")]
REQUESTS = ["Could you summarise it for me?", "So what did we say then?", "Read it back to me, please.",
            "What were the main points of that?", "Can you show me that conversation?",
            "Go over that again with me.", "Well, tell me what was discussed.", "List it all."]


def date_phrases(d, years):
    m, n, w = MONTHS[d.month - 1], d.day, DAYS[d.weekday()]
    full = [f"on {m} {n}, {d.year}", f"on {n} {m} {d.year}", f"on {d.isoformat()}",
            f"on {d.year}/{d.month:02d}/{d.day:02d}", f"on the {nth(n)} of {m}, {d.year}",
            f"on {w} {n} {m} {d.year}", f"on {n}-{m[:3]}-{d.year}", f"on {m[:3]} {n} {d.year}",
            f"on {m} the {spoken(n)}, {d.year}", f"on {d.year}-{d.month}-{d.day}",
            f"on {n}.{d.month}.{d.year}" if n > 12 else f"on {m[:3]}. {n}, {d.year}",
            f"on {d.month}/{n}/{d.year}" if n > 12 else f"on {w}, {m} {n}, {d.year}"]
    short = [f"on {m} {nth(n)}", f"on the {nth(n)} of {m}", f"on the {spoken(n)} of {m}",
             f"on {m} {spoken(n)}", f"on {n} {m[:3]}", f"back on {m} {n}", f"on {m} the {nth(n)}",
             f"on {w}, {m} {nth(n)}", f"on {w} the {nth(n)} of {m}", f"on {SLIPS[m]} {nth(n)}",
             f"on {m.lower()} {n}", f"on {m.upper()} {n}"]
    return full + (short if years == 1 else [])


def date_span_phrases(a, b, years):
    ma, mb = MONTHS[a.month - 1], MONTHS[b.month - 1]
    full = [f"between {ma} {a.day}, {a.year} and {mb} {b.day}, {b.year}", f"from {a} to {b}",
            f"from {a.day} {ma} {a.year} until {b.day} {mb} {b.year}",
            f"anywhere from {ma[:3]} {a.day} {a.year} through {mb[:3]} {b.day} {b.year}"]
    short = [f"from {ma} {nth(a.day)} to {mb} {nth(b.day)}", f"between {ma} {a.day} and {mb} {b.day}",
             f"between the {nth(a.day)} of {ma} and the {nth(b.day)} of {mb}",
             f"starting {ma} {a.day} and ending {mb} {b.day}",
             f"from the {spoken(a.day)} of {ma} through the {spoken(b.day)} of {mb}",
             f"from {a.day} {ma[:3]} till {b.day} {mb[:3]}", f"in the period {ma} {a.day} - {mb} {b.day}"]
    if a.month == b.month:
        short += [f"between the {nth(a.day)} and the {nth(b.day)} of {ma}",
                  f"from {ma} {a.day} to {b.day}", f"from the {spoken(a.day)} to the {spoken(b.day)} of {ma}"]
    return full + (short if years == 1 else [])


def month_phrases(d, years):
    m = MONTHS[d.month - 1]
    full = [f"in {m} {d.year}", f"in {m} of {d.year}", f"during {m[:3]} {d.year}",
            f"over the course of {m} {d.year}", f"in {d.year}-{d.month:02d}"]
    short = [f"in {m}", f"back in {m}", f"during the month of {m}", f"throughout {m}", f"in {SLIPS[m]}",
             f"at any time in {m}", f"in {m.lower()}", f"that {m}" if m != "May" else "in the month of May"]
    return full + (short if years == 1 else [])


def rel_month_phrases(n):
    special = {0: ["this month", "in the current month", "so far this month"],
               1: ["last month", "a month ago", "the previous month", "in the month before this one",
                   "during the past calendar month"],
               2: ["the month before last", "a couple of months ago"], 6: ["half a year ago"],
               12: ["a year ago", "twelve months back"]}.get(n, [])
    many = [f"{n} months ago", f"{words(n)} months ago", f"{words(n)} months back", f"{n} months back",
            f"some {words(n)} months ago", f"{words(n)} months earlier", f"{n} months before this one"]
    return special if n < 2 else special + many


def rel_day_phrases(n):
    special = {1: ["yesterday", "the day before today", "one day ago", "a day ago"],
               2: ["the day before yesterday", "a couple of days ago"], 7: ["a week ago"],
               14: ["a fortnight ago"], 12: ["a dozen days ago"]}.get(n, [])
    many = [f"{n} days ago", f"{words(n)} days ago", f"{words(n)} days back", f"{n} days back",
            f"exactly {words(n)} days ago", f"{n} days before today", f"{words(n)} days earlier",
            f"{n} days prior to today"]
    return special if n < 2 else special + many


def day_span_phrases(n):
    special = {7: ["in the past week", "over the last week", "during the last seven days",
                   "this past week"], 14: ["in the last fortnight", "over the past two weeks"],
               2: ["over the last couple of days"], 3: ["in the last three days"]}.get(n, [])
    return special + [f"in the last {n} days", f"over the past {words(n)} days",
                      f"within the last {words(n)} days", f"during the previous {n} days",
                      f"in these past {n} days", f"over the most recent {words(n)} days"]


def named_day_phrases(w):
    return [f"last {w}", f"on {w}", f"this past {w}", f"the previous {w}", f"on the most recent {w}",
            f"{w} just gone", f"last {w[:3]}"]


EARLIER_TODAY = ["earlier today", "earlier on today", "before, today", "in our previous chat today",
                 "sooner today, before this chat", "previously today", "already today",
                 "today, in the earlier conversation", "earlier this day", "the last time we spoke today"]
THINGS = ["session", "conversation", "chat", "talk", "discussion"]


def session_phrases(k, rng):
    t = rng.choice(THINGS)
    special = {1: ["in our very first conversation", "when we first talked", "at our first chat",
                   "the first time we spoke"]}.get(k, [])
    return special + [
        f"in {t} {k}", f"in {t} number {words(k)}", f"in {t} #{k}", f"in {t} no. {k}",
        f"in our {spoken(k)} {t}", f"in the {nth(k)} {t}", f"the {nth(k)} time we spoke",
        f"the {spoken(k)} time we talked", f"during {t} {words(k)}", f"in the {spoken(k)} {t} we had"]


def rel_session_phrases(n, rng):
    t = rng.choice(THINGS)
    special = {1: [f"in our last {t}", f"in the previous {t}", "the last time we talked",
                   "when we last spoke", f"in the most recent {t}", f"one {t} ago"],
               2: [f"in the {t} before last", "the time before last", f"in the penultimate {t}",
                   f"in the second to last {t}", f"in the {t} before the previous one"],
               3: [f"in the third to last {t}", "the third last time we talked"]}.get(n, [])
    many = [f"{n} {t}s ago", f"{words(n)} {t}s ago", f"{words(n)} {t}s back", f"{n} {t}s back",
            f"{words(n)} {t}s before this one", f"{n} {t}s earlier"]
    return special if n == 1 else special + many


def session_span_phrases(a, b, rng):
    t = rng.choice(THINGS)
    special = [f"in the first {words(b)} {t}s", f"over our first {b} {t}s"] if a == 1 else []
    return special + [
        f"in {t}s {a} to {b}", f"between {t} {a} and {t} {b}", f"from {t} {a} through {t} {b}",
        f"in {t}s {words(a)} through {words(b)}", f"from our {spoken(a)} {t} to our {spoken(b)}",
        f"in {t}s {a}-{b}", f"between the {nth(a)} and {nth(b)} {t}s",
        f"from the {spoken(a)} to the {spoken(b)} {t}", f"starting with {t} {a} and ending with {t} {b}"]


def as_noun(phrase):
    """The phrase where a noun is wanted: "what we said on May 5"."""
    return "what we said " + phrase


def ask(frame, phrase):
    return (frame.replace("{n}", as_noun(phrase)).replace("{C}", phrase[0].upper() + phrase[1:])
            .replace("{}", phrase))


class Conversation:
    """Responses with time and session; the last response is now."""

    def __init__(self, raw):
        self.raw = raw
        self.rows = []  # (number, session, time)
        k = 1
        while f"session_{k}" in raw:
            for r in raw[f"session_{k}"]:
                t = dt.datetime.strptime(r["date_time"], "%I:%M:%S %p on %A %d %B, %Y")
                self.rows.append((int(r["response_number"]), k, t))
            k += 1
        self.sessions = k - 1
        self.now = self.rows[-1][2]
        self.years = len({t.year for _, _, t in self.rows})
        self.dates = sorted({t.date() for _, _, t in self.rows})

    def where(self, test):
        return [n for n, s, t in self.rows if test(s, t)]


def months_between(now, t):
    return 12 * (now.year - t.year) + now.month - t.month


def items(c, rng):
    """(type, phrases, responses) for everything that can be asked about one conversation."""
    for d in c.dates:
        yield "dates", date_phrases(d, c.years), c.where(lambda s, t: t.date() == d)
    for _ in range(15):
        a, b = sorted(rng.sample(c.dates, 2))
        yield "date_span", date_span_phrases(a, b, c.years), c.where(lambda s, t: a <= t.date() <= b)
    for d in sorted({d.replace(day=1) for d in c.dates}):
        same = c.where(lambda s, t: (t.year, t.month) == (d.year, d.month))
        yield "month", month_phrases(d, c.years), same
        yield "rel_month", rel_month_phrases(months_between(c.now, d)), same
    for n in sorted({(c.now - t).days for _, _, t in c.rows} - {0}):
        by_hours = c.where(lambda s, t: (c.now - t).days == n)
        by_dates = c.where(lambda s, t: (c.now.date() - t.date()).days == n)
        # "3 days ago" counts in 24 hours, as in the published set; "yesterday" is a date.
        counted = [p for p in rel_day_phrases(n) if by_hours == by_dates or p[0].isdigit()]
        if counted:
            yield "rel_day", counted, by_hours
    for n in (2, 3, 5, 7, 10, 14, 21, 30):
        first = c.now.date() - dt.timedelta(days=n)
        if {t.date() for _, _, t in c.rows if t.date() == first}:
            continue  # people differ on whether that day belongs
        yield "day_span", day_span_phrases(n), c.where(lambda s, t: t.date() > first)
    for w in range(7):
        past = [d for d in c.dates if d.weekday() == w and d < c.now.date()]
        if past:
            yield "last_named_day", named_day_phrases(DAYS[w]), c.where(lambda s, t: t.date() == past[-1])
    before = c.where(lambda s, t: t.date() == c.now.date() and s < c.sessions)
    if before:
        yield "earlier_today", EARLIER_TODAY, before
    for k in range(1, c.sessions + 1):  # the question is asked after the last one
        only = c.where(lambda s, t: s == k)
        yield "session", session_phrases(k, rng), only
        yield "rel_session", rel_session_phrases(c.sessions + 1 - k, rng), only
    for _ in range(20):
        a, b = sorted(rng.sample(range(1, c.sessions), 2))
        yield "session_span", session_span_phrases(a, b, rng), c.where(lambda s, t: a <= s <= b)


def vague(phrase, rng):
    turns = [("user", ask(rng.choice(OPENERS), phrase)), ("assistant", rng.choice(ANSWERS))]
    if rng.random() < 0.4:
        small = rng.choice(SMALL)
        turns += [("user", small[0]), ("assistant", small[1])]
    turns.append(("user", rng.choice(REQUESTS)))
    return [{"speaker": s, "text": t} for s, t in turns]


def made_conversation(rng, sessions=14):
    """A conversation about nothing in particular, over some months; its last two share a day."""
    raw = {"speaker_a": "Ada", "speaker_b": "Ben"}
    time = dt.datetime(2024, rng.randint(1, 3), rng.randint(1, 28), 9, 30)
    number = 0
    things = "garden violin budget hiking bakery lantern orchard telescope ferry quilt".split()
    for k in range(1, sessions + 1):
        last = k == sessions
        time = time + dt.timedelta(hours=4) if last else (
            time.replace(hour=rng.randint(8, 11)) + dt.timedelta(days=rng.choice([1, 2, 3, 5, 9, 16])))
        rows = []
        for i in range(rng.randint(4, 9)):
            rows.append({"speaker": "Ada" if i % 2 == 0 else "Ben", "dia_id": f"D{k}:{i + 1}",
                         "text": f"Let us speak of the {rng.choice(things)} and the {rng.choice(things)}.",
                         "date_time": time.strftime("%I:%M:%S %p on %A %d %B, %Y"),
                         "response_number": str(number)})
            number += 1
            time += dt.timedelta(seconds=20)
        raw[f"session_{k}"] = rows
    return raw


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1))


content_items = None  # of a second set: questions with a subject


def main(about=__doc__):
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--conversations", help="folder of conversations to ask about")
    p.add_argument("--make", type=int, default=0, help="make this many conversations instead")
    p.add_argument("--out", required=True, help="folder to write: ConversationData and TestData")
    p.add_argument("--per-item", type=int, default=5, help="wordings of each item")
    p.add_argument("--seed", type=int, default=1)
    o = p.parse_args()
    rng = random.Random(o.seed)
    if o.make:
        raws = {str(i + 1): made_conversation(rng) for i in range(o.make)}
    else:
        raws = {f.stem: json.loads(f.read_text()) for f in sorted(pathlib.Path(o.conversations).glob("*.json"))}
    time_qs = collections.defaultdict(dict)
    vague_qs = collections.defaultdict(dict)
    content_qs = {}
    for name, raw in raws.items():
        write(pathlib.Path(o.out) / "ConversationData" / f"{name}.json", raw)
        if content_items:
            content_qs[f"file_{name}"] = list(content_items(raw, rng))
        for kind, phrases, responses in items(Conversation(raw), rng):
            for table in (time_qs, vague_qs):
                chosen = [rng.choice(phrases) for _ in range(o.per_item)]
                asked = [ask(rng.choice(FRAMES), c) if table is time_qs else vague(c, rng) for c in chosen]
                table[kind].setdefault(f"file_{name}", []).append(
                    {"questions": asked, "relevant_docs": responses})
    for folder, table in (("time_qs", time_qs), ("ambiguous_time_qs", vague_qs)):
        for kind, files in table.items():
            value = {"file_indexes": sorted(raws), **files}
            write(pathlib.Path(o.out) / "TestData" / folder / f"test_{kind}.json", value)
    if content_qs:
        write(pathlib.Path(o.out) / "TestData/content_time_qs/content_time_qs.json",
              {"file_indexes": sorted(raws), **content_qs})


if __name__ == "__main__":
    main()

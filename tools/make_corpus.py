#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small corpus for trying the data pipeline. Writes FOLDER/web/*.jsonl and
FOLDER/books/a.jsonl with articles of made sentences, and plants what a pipeline should find: copies (exact, with
other spacing, with a few words changed), menus and junk, a boilerplate line, and a question of a benchmark
(FOLDER/quiz.jsonl). The same for the same arguments."""
import argparse
import json
import pathlib
import random

SUBJECTS = ["The river", "A careful engineer", "The old library", "Our neighbour", "The small engine", "The council",
            "A young botanist", "The northern road", "Every second winter", "The harbour"]
VERBS = ["carries", "describes", "measures", "forgets", "repairs", "crosses", "explains", "collects", "avoids", "follows"]
OBJECTS = ["the stones of the valley", "a long list of names", "what the map leaves out", "the price of salt and grain",
           "the first machines of the town", "a bridge that nobody uses", "the habits of migrating birds",
           "letters that were never sent", "the light of the evening", "an answer to an older question"]
ENDINGS = ["in the spring of that year", "with more patience than skill", "although few people noticed",
           "and the work went on", "because the winter was near", "as it had been agreed", "without a single word",
           "for the benefit of the village", "until the money was gone", "to the surprise of the guests"]
BOILERPLATE = "All rights reserved by the publisher of this page and its partners."
QUESTION = ("A baker sells twelve loaves each morning and nine each afternoon, how many loaves does the baker sell "
            "in one full week of work?")


def sentence(rng):
    number = "" if rng.random() < 0.6 else f" about {rng.randrange(3, 900)} times"
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}{number} {rng.choice(ENDINGS)}."


def article(rng):
    paragraphs = [" ".join(sentence(rng) for _ in range(rng.randrange(3, 7))) for _ in range(rng.randrange(2, 5))]
    return "\n\n".join(paragraphs)


def junk(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return "Home | About | Login"
    if kind == 1:
        return " ".join(str(rng.randrange(10**6)) for _ in range(60))
    if kind == 2:
        return "<td><tr>" * 60 + "lorem ipsum " * 5
    return "!!! $$$ *** ### @@@ %%% " * 20


def edited(rng, text):
    words = text.split(" ")
    for _ in range(max(1, len(words) // 60)):
        words[rng.randrange(len(words))] = "indeed"
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="to write, such as corpus")
    parser.add_argument("documents", type=int, nargs="?", default=2000, help="of web; books: a quarter [2000]")
    options = parser.parse_args()
    folder, count = options.folder, options.documents
    if count < 4:
        parser.error(f"documents: expected at least 4, got {count}")
    rng = random.Random(1)
    books = [article(rng) for _ in range(count // 4)]
    web = []
    for _ in range(count):
        roll = rng.random()
        if roll < 0.15 and web:
            web.append(rng.choice([rng.choice(web), rng.choice(books)]))
        elif roll < 0.25 and web:
            web.append(edited(rng, rng.choice(web)))
        elif roll < 0.40:
            web.append(junk(rng))
        else:
            web.append(article(rng) + (f"\n{BOILERPLATE}" if rng.random() < 0.3 else ""))
    web[count // 2] = article(rng) + "\n" + QUESTION
    for name, texts in [("books/a", books), ("web/a", web[::2]), ("web/b", web[1::2])]:
        path = folder / (name + ".jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(json.dumps({"text": text, "n": i}) + "\n" for i, text in enumerate(texts))
    (folder / "quiz.jsonl").write_text(json.dumps({"question": QUESTION, "answer": "147"}) + "\n")


if __name__ == "__main__":
    main()

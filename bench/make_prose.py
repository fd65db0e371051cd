#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The prose set of the data bench: bench/make_prose.py ESSAYS.json OUT.jsonl [MB]. Cuts running text (JSON with "text",
or plain) into documents of about 4 kB at line ends and repeats them with generated edits until there are MB million
bytes (35): in each copy one word in twelve is another one of the text, so copies are alike but few are duplicates."""
import json
import pathlib
import random
import sys

DOCUMENT_BYTES = 4000
EDITED_WORDS = 12  # one in so many


def documents(path):
    raw = pathlib.Path(path).read_text(encoding="utf-8")
    text = "\n".join(json.loads(line)["text"] for line in raw.splitlines()) if raw.startswith("{") else raw
    pieces, size = [], 0
    for line in text.splitlines():
        pieces.append(line)
        size += len(line.encode()) + 1
        if size >= DOCUMENT_BYTES:
            yield "\n".join(pieces)
            pieces, size = [], 0


def main():
    texts = list(documents(sys.argv[1]))
    wanted = float(sys.argv[3] if len(sys.argv) > 3 else 35) * 1e6
    words = [word for text in texts for word in text.split(" ")]
    rng = random.Random(1)
    done = 0
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for copy in range(10**9):
            for text in texts:
                if copy > 0:
                    text = " ".join(rng.choice(words) if rng.random() * EDITED_WORDS < 1 else word
                                    for word in text.split(" "))
                out.write(json.dumps({"text": text, "copy": copy}, ensure_ascii=False) + "\n")
                done += len(text.encode())
                if done >= wanted:
                    return


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/filters/zyda1.json: texts and what Python's re module counts in them, by the
definitions of docs/data-pipeline.md. Usage: tools/make_filter_vectors.py OUT.json"""
import json
import random
import re
import sys

RUNS = [("-", 10), (" ", 40), ("_", 10), ("/", 10), ("\\", 10), ("\n", 10), ("\t", 20), ("\r", 10),
        (".", 10), (",", 10), (":", 10), ("?", 10), ("\u00a0", 10)]
PATTERNS = ["xml", "<?xml version=", "lorem ipsum", "https://", "<", ">", '":', "www."]
MAIL = r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Z|a-z]{2,}\b"
OCTET = r"(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)"


def transform(text):
    for char, least in RUNS:
        text = re.sub(re.escape(char) + "{%d,}" % least, lambda m: char, text)
    return text


def measure(text):
    pieces = re.split(r"[\s\-/\\.]", text)
    changed = transform(text)
    size = max(1, len(text))
    return {
        "transformed": changed,
        "length": len(changed),
        "mean_word_length": sum(map(len, pieces)) / len(pieces) if text else 0,
        "fraction_non_alphanumeric": len(re.findall(r"[^\w\s]", text)) / size,
        "fraction_numerical": len(re.findall(r"\d", text)) / size,
        "pii_count": len(re.findall(MAIL, text)) + len(re.findall(r"(?:%s\.){3}%s" % (OCTET, OCTET), text)),
        "same_character_runs": len(re.findall(r"((\w)\2{6,})", changed)),
        "patterns": [len(re.findall(pattern, text)) for pattern in PATTERNS],
    }


HAND = [
    "", "a", "plain words here. And more - words/with\\separators", "...", "x" * 7, "x" * 6, "_" * 9, "_" * 10,
    "\\" * 9, "\\" * 10, "\\" * 25, " " * 39 + "a", " " * 40 + "a", "\t" * 20, "\u00a0" * 12, "ааааааа бббббббб",
    "wwwwwwww www\n www.a www", "<?xml version= ?xml version= xml version=xml", "lorem ipsum Lorem ipsum lorem ipsum",
    '{"a": 1, "b":2}', "https://a.b http://c https://https://", "mail me@example.com, a.b+c@x-y.co.uk; @x.com a@b a@b.c",
    "1.2.3.4 256.1.1.1 1.2.3.4.5.6.7.8 192.168.001.255 25.25.25.256", "a@b.cd|ef x@y.zz1 x@y.z1z ü@b.com a@b.comü",
    "١٢٣ ²³½ Ⅷ é́ नमस्ते 你好世界 ไทย", "\x1c\x1d\x85\u2028\u3000a", "7777777 ²²²²²²² ______________",
    "a.a.a.a@b.c.d.ee @@@ a@@b.com .a@b.co -x@q.io _@a.bc", "a@b.co@c.de", "1.1.1.1.1 11.11.11.11 1111.1.1.1",
]
ALPHABET = list("aaabcdexmlw  \n\t.-/\\_:<>\"'?,@#0123459") + ["é", "ß", "你", "\u00a0", "٣", "www.", "xml", "https://",
                                                              "lorem ipsum", '":', "a@b.co", "1.2.3.4", "??????????"]


def main():
    rng = random.Random(7)
    texts = list(HAND)
    for _ in range(300):
        text = ""
        for _ in range(rng.randrange(60)):
            text += rng.choice(ALPHABET) * (rng.randrange(1, 14) if rng.random() < 0.2 else 1)
        texts.append(text)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump([{"text": text, **measure(text)} for text in texts], out, ensure_ascii=True, indent=0)
        out.write("\n")


if __name__ == "__main__":
    main()

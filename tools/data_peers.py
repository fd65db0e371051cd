#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The inner loops of Python data tools, timed: tools/data_peers.py DOCUMENTS.jsonl prints one JSON object of MB/s.
`tephra bench data --python` runs it beside our own loops. Needs python3-numpy, and python3-xxhash for datatrove's.
Written from the recipes (docs/data-pipeline.md), as those tools compute them: numpy over permutations, one shingle
after another. Words are cut at spaces; the tools' own word splitters would only make them slower."""
import hashlib
import json
import re
import string
import struct
import sys
import time

import numpy as np

try:
    import xxhash
except ImportError:
    xxhash = None

PRIME = np.uint64((1 << 61) - 1)
LOW = np.uint64((1 << 32) - 1)
BUDGET = 3.0  # seconds of each loop


def family(count, seed):
    random = np.random.RandomState(seed)
    pairs = [(random.randint(1, (1 << 61) - 1, dtype=np.uint64), random.randint(0, (1 << 61) - 1, dtype=np.uint64))
             for _ in range(count)]
    return np.array(pairs, dtype=np.uint64).T


def normal_words(text):
    return text.lower().translate(str.maketrans("", "", string.punctuation)).split()


def zyda1(text, a, b):
    words = normal_words(text)
    values = np.full(len(a), LOW, dtype=np.uint64)
    for i in range(max(0, len(words) - 12)):
        h = struct.unpack("<I", hashlib.sha1(" ".join(words[i:i + 13]).encode()).digest()[:4])[0]
        values = np.minimum(values, np.bitwise_and((a * np.uint64(h) + b) % PRIME, LOW))
    return values


def fineweb(text, a, b):
    words = normal_words(text)
    hashes = [xxhash.xxh64_intdigest(" ".join(words[i:i + 5])) for i in range(max(0, len(words) - 4))]
    if not hashes:
        return None
    return ((np.array(hashes, dtype=np.uint64)[:, None] * a + b) % PRIME).min(axis=0)


def zyda1_filters(text):
    pieces = re.split(r"[\s\-/\\.]", text)
    features = [sum(map(len, pieces)) / len(pieces), len(re.findall(r"[^\w\s]", text)), len(re.findall(r"\d", text)),
                len(re.findall(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Z|a-z]{2,}\b", text))]
    for pattern in ["xml", "<?xml version=", "lorem ipsum", "https://", "<", ">", '":', "www."]:
        features.append(len(re.findall(pattern, text)))
    for char, least in [("-", 10), (" ", 40), ("_", 10), ("/", 10), ("\\", 10), ("\n", 10), ("\t", 20), ("\r", 10),
                        (".", 10), (",", 10), (":", 10), (r"?", 10), ("\u00a0", 10)]:
        text = re.sub(re.escape(char) + "{%d,}" % least, lambda m, c=char: c, text)
    features.append(len(re.findall(r"((\w)\2{6,})", text)))
    return features


def rate(texts, work):
    done, begin = 0, time.perf_counter()
    for text in texts:
        work(text)
        done += len(text.encode())
        if time.perf_counter() - begin > BUDGET:
            break
    return done / 1e6 / (time.perf_counter() - begin)


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    a, b = family(128, 1)
    rates = {"zyda1": rate(texts, lambda t: zyda1(t, a, b)), "filter zyda1": rate(texts, zyda1_filters),
             "parse": rate([json.dumps({"text": t}) for t in texts], json.loads)}
    if xxhash:
        a, b = family(112, 1)
        rates["fineweb"] = rate(texts, lambda t: fineweb(t, a, b))
    print(json.dumps(rates))


if __name__ == "__main__":
    main()

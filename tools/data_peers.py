#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The inner loops of Python data tools, timed: tools/data_peers.py DOCUMENTS.jsonl [SECONDS] prints one JSON object of
MB/s, on one thread. `tephra bench data --python` runs it beside our own loops. Needs python3-numpy; python3-xxhash for
datatrove's loop, python3-nltk for the word splitter of Zyda and datatrove (without it words are cut at spaces, which
makes Python look faster). Written from the recipes (docs/data-pipeline.md) as those tools compute them: numpy over
all shingles of a document and all permutations at once."""
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
try:
    from nltk.tokenize.destructive import NLTKWordTokenizer
    split_words = NLTKWordTokenizer().tokenize
except ImportError:
    split_words = str.split

PRIME = np.uint64((1 << 61) - 1)
LOW = np.uint64((1 << 32) - 1)
SECONDS = 3.0  # of each loop
PUNCTUATION = str.maketrans("", "", string.punctuation)
TO_SPACES = str.maketrans({c: " " for c in string.punctuation})


def family(count, seed):
    random = np.random.RandomState(seed)
    pairs = [(random.randint(1, (1 << 61) - 1, dtype=np.uint64), random.randint(0, (1 << 61) - 1, dtype=np.uint64))
             for _ in range(count)]
    return np.array(pairs, dtype=np.uint64).T


def datasketch(shingles, a, b):
    """update_batch of datasketch."""
    if not shingles:
        return np.full(len(a), LOW, dtype=np.uint64)
    hashes = np.array([struct.unpack("<I", hashlib.sha1(s).digest()[:4])[0] for s in shingles], dtype=np.uint64)
    return np.bitwise_and((hashes[:, None] * a + b) % PRIME, LOW).min(axis=0)


def word_shingles(words, n):
    return [" ".join(words[i:i + n]).encode() for i in range(max(0, len(words) - n + 1))]


def zyda1(text, a, b):
    words = split_words(" ".join(text.lower().translate(PUNCTUATION).split()))
    return datasketch(word_shingles(words, 13), a, b)


def fineweb(text, a, b):
    text = re.sub(r"\d+", "0", text.lower()).translate(TO_SPACES)
    words = split_words(re.sub(r"\s+", " ", text).strip())
    hashes = [xxhash.xxh64_intdigest(s) for s in word_shingles(words, 5)]
    if not hashes:
        return None
    return ((np.array(hashes, dtype=np.uint64)[:, None] * a + b) % PRIME).min(axis=0)


def zyda1_filters(text):
    pieces = re.split(r"[\s\-/\\.]", text)
    features = [sum(map(len, pieces)) / len(pieces), len(re.findall(r"[^\w\s]", text)), len(re.findall(r"\d", text)),
                len(re.findall(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Z|a-z]{2,}\b", text)),
                len(re.findall(r"(?:(?:25[0-5]|2[0-4]\d|[01]?\d\d?)\.){3}(?:25[0-5]|2[0-4]\d|[01]?\d\d?)", text))]
    for pattern in ["xml", "<?xml version=", "lorem ipsum", "https://", "<", ">", '":', "www."]:
        features.append(len(re.findall(pattern, text)))
    for char, least in [("-", 10), (" ", 40), ("_", 10), ("/", 10), ("\\", 10), ("\n", 10), ("\t", 20), ("\r", 10),
                        (".", 10), (",", 10), (":", 10), (r"?", 10), ("\u00a0", 10)]:
        text = re.sub(re.escape(char) + "{%d,}" % least, lambda m, c=char: c, text)
    features.append(len(re.findall(r"((\w)\2{6,})", text)))
    return features


def rate(items, size, work):
    """The best of passes over as many items as fit into a tenth of the time."""
    part, begin = [], time.perf_counter()
    for item in items:
        work(item)
        part.append(item)
        if time.perf_counter() - begin > SECONDS / 10:
            break
    best, end = 0, time.perf_counter() + SECONDS * 0.9
    amount = sum(map(size, part))
    while True:
        begin = time.perf_counter()
        for item in part:
            work(item)
        best = max(best, amount / 1e6 / (time.perf_counter() - begin))
        if time.perf_counter() > end:
            return best


def main():
    global SECONDS
    if len(sys.argv) > 2:
        SECONDS = float(sys.argv[2])
    with open(sys.argv[1], encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]

    def size(text):
        return len(text.encode())

    a, b = family(128, 1)
    shingled = [[word.encode() for word in text.split()] for text in texts]
    rates = {"parse": rate([json.dumps({"text": t}) for t in texts], size, json.loads),
             "filter zyda1": rate(texts, size, zyda1_filters),
             "sketch": rate(shingled, lambda words: sum(map(len, words)) + len(words), lambda w: datasketch(w, a, b)),
             "zyda1": rate(texts, size, lambda t: zyda1(t, a, b))}
    if xxhash:
        a, b = family(112, 1)
        rates["fineweb"] = rate(texts, size, lambda t: fineweb(t, a, b))
    print(json.dumps(rates))


if __name__ == "__main__":
    main()

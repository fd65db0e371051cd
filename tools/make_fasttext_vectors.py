#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/fasttext: a tiny classifier that Debian's fasttext trains on made words and quantises (pruned,
with and without norms, with a quantised output), and what fasttext itself predicts with it.
Usage: tools/make_fasttext_vectors.py FOLDER."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

SYLLABLES = {"aa": ["ka", "lo", "mi", "tu"], "bb": ["sch", "ein", "ü", "ber"], "cc": ["你", "好", "世", "界"]}


def text(rng, label, words):
    return " ".join("".join(rng.choice(SYLLABLES[label]) for _ in range(rng.randrange(1, 5))) for _ in range(words))


def fasttext(*arguments):
    return subprocess.run(["fasttext", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(3)
    asked = [text(rng, label, words) for label in SYLLABLES for words in (1, 3, 8)]
    asked += ["kalo einschber 你好 unknown", "zzz"]
    expected = {"texts": asked, "models": {}}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        lines = [f"__label__{label} {text(rng, label, 12)}" for _ in range(300) for label in SYLLABLES]
        (work / "train.txt").write_text("\n".join(lines) + "\n")
        (work / "asked.txt").write_text("\n".join(asked) + "\n")
        for name, loss, options in [("hs", "hs", ["-qnorm", "-cutoff", 500]),
                                    ("softmax", "softmax", ["-cutoff", 400, "-dsub", 3]),
                                    ("whole", "ova", ["-qnorm"])]:
            fasttext("supervised", "-input", work / "train.txt", "-output", work / name, "-dim", 10, "-minn", 2,
                     "-maxn", 4, "-wordNgrams", 2, "-bucket", 800, "-epoch", 8, "-loss", loss, "-thread", 1)
            fasttext("quantize", "-input", work / "train.txt", "-output", work / name, *options)
            (folder / f"{name}.ftz").write_bytes((work / f"{name}.ftz").read_bytes())
            predicted = fasttext("predict-prob", work / f"{name}.ftz", work / "asked.txt", 3)
            rows = [line.split() for line in predicted.splitlines()]
            expected["models"][name] = [{row[i].removeprefix("__label__"): float(row[i + 1])
                                         for i in range(0, len(row), 2)} for row in rows]
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Questions about time in words that the grammar was not written from: at least 95 of 100 relevant
responses are found, asked plainly and vaguely after some turns.
    tests/memory_paraphrase_test.py TEPHRA_BINARY"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BAR = 95.0

for script in ("make_memory_questions.py", "make_more_memory_questions.py"):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "tools" / script, "--make", "2", "--out", folder, "--seed", "7"],
                       check=True)
        report = json.loads(subprocess.run([sys.argv[1], "bench", "memory", "--data", folder, "--json"],
                                           check=True, capture_output=True, text=True).stdout)
    totals = [s for s in report["scores"] if s["type"] == "all"]
    for s in totals:
        print(f"{script}, {s['set']}: {s['questions']} questions, recall {s['recall']:.2f}, F2 {s['f2']:.2f}")
    if len(totals) < 2 or any(s["recall"] < BAR for s in totals):
        sys.exit(f"expected a recall of at least {BAR} on all sets")

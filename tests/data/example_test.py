#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example of docs/data-pipeline.md line by line: it finds what was planted, leaves a shard on which a model
learns, and does nothing twice.
    tests/data/example_test.py TEPHRA_BINARY SOURCE_DIR"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def run(line, scratch):
    env = {**os.environ, "PATH": f"{scratch}/bin:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", line], cwd=scratch, env=env, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, f"`{line}` exits {done.returncode}:\n{done.stdout}{done.stderr}"
    return done


def check_reports(scratch):
    counts = {path.parent.name: json.loads(path.read_text())["counts"]
              for path in scratch.glob("processed/*/report.json")}
    assert counts["filter"]["documents"] == 2500, counts["filter"]
    assert counts["filter"]["dropped"] > 200, counts["filter"]  # junk: 15 % of 2,000
    assert counts["dedup"]["removed"] > 250, counts["dedup"]  # copies: 25 % of 2,000
    assert counts["lines"]["removed_pieces"] > 100, counts["lines"]
    assert counts["decontaminate"]["contaminated_by.quiz"] == 1, counts["decontaminate"]
    page = (scratch / "stats/report.html").read_text()
    assert "Clusters, by size" in page


def check_learning(scratch):
    rows = [json.loads(line) for line in (scratch / "trained/metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if "loss" in row]
    first, last = losses[0], sum(losses[-10:]) / 10
    assert last < 0.4 * first, f"the loss went from {first} to {last} only"
    print(f"the loss went from {first:.2f} to {last:.2f} in {len(losses)} steps")


def main():
    binary, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    text = (source / "docs/data-pipeline.md").read_text()
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
    assert any(line.startswith("tephra train") for line in lines), lines
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        (scratch / "bin").mkdir()
        (scratch / "bin/tephra").symlink_to(binary)
        for name in ("configs", "tools"):
            (scratch / name).symlink_to(source / name)
        for line in lines:
            run(line, scratch)
        check_reports(scratch)
        check_learning(scratch)
        shard = scratch / "processed/tokens/corpus.bin"
        before = shard.stat().st_mtime_ns
        again = run("tephra data run configs/data/example.toml", scratch)
        assert "tokens: done before" in again.stderr, again.stderr
        assert shard.stat().st_mtime_ns == before


if __name__ == "__main__":
    main()

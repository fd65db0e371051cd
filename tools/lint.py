#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on our sources as they are compiled (small files several at a time), in parallel.
A compilation is skipped when its sources, our headers that they reach, its command and .clang-tidy
are what they were when it last passed."""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# One instruction set is enough to lint a kernel; gcc's warning flags are not all clang's.
EXTRA = ["--extra-arg=-DHWY_COMPILE_ONLY_STATIC", "--extra-arg=-Wno-unknown-warning-option"]


def reached(path, seen):
    """The file and everything of ours that it includes, directly or not."""
    if path in seen or not path.is_relative_to(ROOT) or not path.exists():
        return seen
    seen.add(path)
    for name in INCLUDE.findall(path.read_text()):
        reached(ROOT / name, seen)
    return seen


def fingerprint(path, command):
    digest = hashlib.sha256((command + (ROOT / ".clang-tidy").read_text()).encode())
    for part in sorted(reached(path, set())):
        digest.update(part.read_bytes())
    return digest.hexdigest()


def lint(path, build):
    done = subprocess.run(["clang-tidy", "-p", str(build), "--quiet", *EXTRA, str(path)],
                          capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout or done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    args = parser.parse_args()
    passed = ROOT / ".cache/lint"
    passed.mkdir(parents=True, exist_ok=True)

    commands = json.loads((args.build / "compile_commands.json").read_text())
    todo = []
    for entry in commands:
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        batch = "rooms" in path.parts and path.parent.name == "Unity"
        if not path.is_relative_to(ROOT / "tephra") and not batch or path.suffix == ".cu":
            continue
        stamp = passed / fingerprint(path, entry["command"].replace(str(ROOT), ""))
        if not stamp.exists():
            todo.append((path, stamp))
    print(f"check: clang-tidy on {len(todo)} compilations that have changed, about "
          f"{max(1, len(todo) * 8 // args.jobs // 60)} minutes", flush=True)

    failed, start = 0, time.time()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        jobs = {pool.submit(lint, path, args.build): (path, stamp) for path, stamp in todo}
        for job in concurrent.futures.as_completed(jobs):
            path, stamp = jobs[job]
            good, text = job.result()
            if good:
                stamp.touch()
            else:
                failed += 1
                print(f"{path.relative_to(ROOT)}:\n{text}", flush=True)
    print(f"check: clang-tidy: {failed} of {len(todo)} failed, {time.time() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

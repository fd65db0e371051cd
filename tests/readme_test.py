#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every shell line of README.md in a scratch copy, with the binary that was just built, and
checks that links lead somewhere. `make` lines are run dry (make -n): they are what runs this test.
    tests/readme_test.py TEPHRA_BINARY"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def shell_lines(text):
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith("#"):
                yield line


def dead_links():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                yield f"{page.relative_to(ROOT)}: link to {link}, which does not exist"


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    problems = list(dead_links())
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        (scratch / "bin").mkdir()
        (scratch / "bin/tephra").symlink_to(binary)
        for name in ("Makefile", "CMakeLists.txt", "ARCHITECTURE.md", "configs", "tests", "tools",
                     "tephra"):
            (scratch / name).symlink_to(ROOT / name)
        env = {**os.environ, "PATH": f"{scratch}/bin:{os.environ['PATH']}", "HOME": folder,
               "XDG_CACHE_HOME": folder}
        count = 0
        for line in shell_lines((ROOT / "README.md").read_text()):
            count += 1
            command = re.sub(r"^make ", "make -n ", line)
            done = subprocess.run(["bash", "-ec", command], cwd=scratch, env=env, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
                                  check=False)
            if done.returncode != 0:
                problems.append(f"README.md: `{line}` exits {done.returncode}:\n"
                                f"{done.stdout}{done.stderr}")
    if count == 0:
        problems.append("README.md: no shell line was found")
    print("\n".join(problems) if problems else f"readme: {count} lines ran")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

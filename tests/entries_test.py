#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each test of each binary is run by exactly one entry of ctest: filters neither leave one out nor overlap.

    entries_test.py BUILD_DIR
"""
import collections
import json
import os
import subprocess
import sys

FILTER = "--gtest_filter="


def entries(build):
    """By binary: the filters of its entries, each with the parts it is run in, as (index, of how many)."""
    shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, capture_output=True, text=True)
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for test in json.loads(shown.stdout)["tests"]:
        if "command" not in test:
            sys.exit(f"{test['name']}: its program is not built")
        command = test["command"]
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []) if "=" in e)
        if "TEPHRA_TEST_AVX2" in environment or "emulated" in properties.get("LABELS", []):
            continue  # some tests once more
        for word in command:
            if word.startswith(FILTER):
                part = int(environment["GTEST_SHARD_INDEX"]), int(environment["GTEST_TOTAL_SHARDS"])
                found[command[0]][word.removeprefix(FILTER)].append(part)
    return found


def tests_of(binary, wanted):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GTEST_")}
    listed = subprocess.run([binary, "--gtest_list_tests", FILTER + wanted], check=True, capture_output=True,
                            text=True, env=environment)
    suite, found = "", []
    for line in listed.stdout.splitlines():
        name = line.partition("#")[0].rstrip()
        if line.startswith("  "):
            found.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return found


def faults(binary, filters):
    name = os.path.basename(binary)
    for wanted, parts in filters.items():
        if sorted(parts) != [(i, len(parts)) for i in range(len(parts))]:
            yield f"{name}: the parts of the filter '{wanted}' are {sorted(parts)}"
    runs = collections.Counter(test for wanted in filters for test in tests_of(binary, wanted))
    tests = tests_of(binary, "*")
    if not tests:
        yield f"{name}: has no tests"
    for test in tests:
        if runs[test] != 1:
            yield f"{name}: {test} is in {runs[test]} entries"


def main():
    found = entries(sys.argv[1])
    wrong = [fault for binary, filters in sorted(found.items()) for fault in faults(binary, filters)]
    if not found:
        wrong = ["ctest knows no binary with tests"]
    print("\n".join(wrong) or f"each test of {len(found)} binaries is in one entry")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

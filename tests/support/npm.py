# SPDX-License-Identifier: Apache-2.0
"""Packages from npm for tests, pinned and kept in the build folder."""
import subprocess
import sys

SKIPPED = 77  # what ctest takes for skipped


def install(folder, package):
    """Once; ends the test as skipped where the registry cannot be reached."""
    stamp = folder / (package.replace("/", "_") + ".done")
    if stamp.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix",
                           str(folder), package], check=False, timeout=400, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        print(f"skipped: npm could not bring {package}; is its registry reachable?")
        sys.exit(SKIPPED)
    stamp.touch()

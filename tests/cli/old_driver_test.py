#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A GPU driver that is older than the build needs: a library that stands in for it and says so.

    old_driver_test.py TEPHRA C++-COMPILER

Needs no GPU. Exit code 77 (skipped) where the build has no CUDA backend.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DRIVER = """
extern "C" int cuInit(unsigned) { return 0; }
extern "C" int cuDriverGetVersion(int* version) { return *version = 11040, 0; }
"""


def main():
    tephra, compiler = sys.argv[1:]
    doctor = [tephra, "doctor", "--no-measure", "--json"]
    backend = json.loads(subprocess.run(doctor, capture_output=True, text=True, check=True).stdout)["gpu"].get("backend")
    if not (backend or "").startswith("CUDA"):
        print(f"the GPU backend is {backend}: skipped")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c++", "-", "-o", pathlib.Path(folder) / "libcuda.so.1"],
                       input=DRIVER, text=True, check=True)
        place = dict(os.environ, LD_LIBRARY_PATH=folder + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
        ran = subprocess.run([tephra, "bench", "train", "--device", "gpu"], capture_output=True, text=True, env=place)
        seen = json.loads(subprocess.run(doctor, capture_output=True, text=True, check=True, env=place).stdout)["gpu"]
    wanted = "the GPU driver is too old: it offers CUDA 11.4, this build needs CUDA "
    assert ran.returncode == 4 and ran.stdout == "", ran
    assert wanted in ran.stderr and "update the driver" in ran.stderr, ran.stderr
    assert wanted in seen["why_none"] and not seen["devices"], seen
    print("ok    a driver that is too old is named, with both versions and what to do")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden models, recorded training runs and attention layers, each by `tephra verify` on a GPU: models in f32 and
bf16, the rest, which has no bounds in bf16, in f32.

    gpu_golden_test.py TEPHRA SOURCE_DIR [--device gpu|cpu]

Exit code 77 (skipped) where there is no GPU. With --device cpu it tries itself out.
"""
import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from gpu import need_gpu  # noqa: E402


def cases(golden):
    """The name, the dtype and the flags of each; all there is in the folder."""
    for file in sorted(golden.glob("*/golden.safetensors")):
        for dtype in ("f32", "bf16"):
            yield file.parent.name, dtype, ["--model", file.parent, "--golden", file]
    for file in sorted(golden.glob("train-*/trajectory.safetensors")):
        optimizer = file.parent.name.removeprefix("train-")
        yield file.parent.name, "f32", ["--model", file.parent, "--golden", file, "--optimizer", optimizer]
    for file in sorted(golden.glob("attention/*.safetensors")):
        yield file.stem, "f32", ["--golden", file]


def worst_of(checks):
    """The check that came closest to its bound; exact ones have a bound of zero."""
    def share(check):
        value = check["max_rel" if "rel" in check["metric"] else "max_abs"]
        return (value or 0) / check["bound"] if check["bound"] else 0
    worst = max(checks, key=share)
    return f"{worst['name']} {100 * share(worst):.0f} % of its bound"


def verify(tephra, device, name, dtype, flags):
    command = [tephra, "verify", "--quiet", "--json", "--device", device, "--dtype", dtype, *flags]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if ran.returncode:
        print(f"FAIL  {name} {dtype}: code {ran.returncode}: {ran.stderr.strip()[-300:]}\n{ran.stdout}", flush=True)
        return False
    checks = json.loads(ran.stdout)["checks"]
    print(f"ok    {name} {dtype}: {len(checks)} checks, {worst_of(checks)}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tephra")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--device", default="gpu")
    o = parser.parse_args()
    if o.device != "cpu":
        need_gpu(o.tephra)
    passed = [verify(o.tephra, o.device, *case) for case in cases(o.source / "tests/golden")]
    print(f"{'ok  ' if passed and all(passed) else 'FAIL'}  {sum(passed)} of {len(passed)} cases passed")
    sys.exit(0 if passed and all(passed) else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training runs on a GPU, as processes: equal bits in every run and after kills, checkpoints that go on
on the other device, a run that does not fit, a kernel that fails, a GPU that is lost or not there, a server whose GPU fails.

    gpu_runs_test.py TEPHRA SOURCE_DIR [--device gpu|cpu] [--dtype f32|bf16] [--shape small|heads|layers]
                     [--only NAME,...]

`heads` has heads of 128 and documents of 4,096 tokens, `layers` two whole layers of ZAYA1-8B and 65,536 words, 5 GB a
checkpoint (not for a CPU): the shapes for which there are fast kernels in bf16. Two equal runs come first, whatever else is asked for. The one that does not fit (`large`) takes the whole
memory of a GPU: nothing else should run beside it. Exit code 77 (skipped) where there is no GPU. With --device cpu
it tries itself out: both sides are the CPU, and checks that need a GPU cannot be asked for.
"""
import argparse
import hashlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from gpu import need_gpu  # noqa: E402

STEPS, HALF = 20, 10
# Relative difference of a loss within ten steps on the other device. A run in bf16 is within 3.1e-3 of one in f32 for twenty
# steps on a CPU: bf16 of two devices is no further apart than that, and rounding is all that may part them.
BOUNDS = {"f32": 2e-3, "bf16": 5e-3}
# Beside configs/tiny.toml.
SHAPES = {"small": ["phases.0.batch_tokens=4096", "step.micro_tokens=2048"],
          "heads": ["model.hidden_size=512", "model.num_hidden_layers=2", "model.num_attention_heads=8",
                    "model.head_dim=128", "model.moe_intermediate_size=512", "model.router_hidden_size=256",
                    "phases.0.context=4096", "phases.0.batch_tokens=8192", "step.micro_tokens=4096"],
          "layers": ["model.hidden_size=2048", "model.num_hidden_layers=2", "model.num_attention_heads=8",
                     "model.num_key_value_heads=2", "model.head_dim=128", "model.num_experts=16",
                     "model.moe_intermediate_size=2048", "model.router_hidden_size=256", "model.vocab_size=65536",
                     "phases.0.context=4096", "phases.0.batch_tokens=65536", "step.micro_tokens=16384",
                     "phases.0.lr=3e-4"]}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("tephra")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--dtype", default="f32", choices=BOUNDS)
    parser.add_argument("--shape", default="small", choices=SHAPES)
    parser.add_argument("--only", help="of " + ", ".join(CHECKS))
    o = parser.parse_args()
    possible = FOR_BOTH if o.device == "cpu" else list(CHECKS)
    o.only = o.only.split(",") if o.only is not None else possible
    if unknown := set(o.only) - set(CHECKS):
        parser.error(f"no such check: {', '.join(sorted(unknown))}")
    if impossible := set(o.only) - set(possible):
        parser.error(f"needs a GPU: {', '.join(sorted(impossible))}")
    return o


class Runs:
    def __init__(self, o, scratch):
        self.tephra, self.source, self.scratch, self.device = o.tephra, o.source, scratch, o.device
        self.dtype, self.shape = o.dtype, SHAPES[o.shape]
        self.seconds = 0.0  # of a whole run
        self.config = str(o.source / "configs" / "tiny.toml")

    def command(self, name, device, extra=()):
        settings = [f"phases.0.steps={STEPS}", "phases.0.decay_steps=5", "phases.0.warmup_steps=5",
                    f"checkpoints.every_steps={HALF}", "checkpoints.keep_last=4", "validation.every_steps=0",
                    "validation.samples=1", "evaluation.tasks=0", f"model.dtype={self.dtype}",
                    f"optimizer.newton_schulz_dtype={self.dtype}", *self.shape, *extra]
        out = [self.tephra, "train", self.config, "--out", str(self.scratch / name), "--device", device, "--quiet"]
        for s in settings:
            out += ["--set", s]
        return out

    def run(self, name, device, extra=(), **variables):
        return subprocess.run(self.command(name, device, extra), capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, **variables))

    def losses(self, name):
        lines = (self.scratch / name / "metrics.jsonl").read_text().splitlines()
        return {line["step"]: line["loss"] for line in map(json.loads, lines)}

    def tensors(self, name, step):
        digest = hashlib.sha256()
        for path in sorted((self.scratch / name / "checkpoints" / f"step-{step}").glob("*.safetensors")):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def branch(self, source, name):
        """A run that stands where `source` stood after half of its steps."""
        shutil.copytree(self.scratch / source, self.scratch / name)
        shutil.rmtree(self.scratch / name / "checkpoints" / f"step-{STEPS}")


def check(ok, text):
    print(("ok    " if ok else "FAIL  ") + text, flush=True)
    return 0 if ok else 1


def equal_runs(runs):
    first = runs.run("a", runs.device)
    begin = time.monotonic()
    second = runs.run("b", runs.device)
    runs.seconds = time.monotonic() - begin
    if first.returncode or second.returncode:
        return check(False, f"two runs end: {first.stderr}{second.stderr}")
    return check(runs.losses("a") == runs.losses("b") and runs.tensors("a", STEPS) == runs.tensors("b", STEPS),
                 "two runs have the same losses and the same final bytes")


def killed_run(runs):
    draw, kills = random.Random(7), 0
    for _ in range(40):
        process = subprocess.Popen(runs.command("killed", runs.device), stderr=subprocess.PIPE)
        deadline = time.monotonic() + draw.uniform(0.2, 0.8) * runs.seconds
        while process.poll() is None and time.monotonic() < deadline and kills < 5:
            time.sleep(0.02)
        if process.poll() is None and kills < 5:
            process.send_signal(signal.SIGKILL)
            kills += 1
        error = process.communicate()[1].decode()
        if process.returncode == 0:
            break
        if process.returncode != -signal.SIGKILL:
            return check(False, f"a run that was killed before goes on: {error}")
    same = runs.losses("a") == runs.losses("killed") and runs.tensors("a", STEPS) == runs.tensors("killed", STEPS)
    return check(kills > 0 and same,
                 f"a run that was killed {kills} times ends with the same bytes")


def moved_run(runs):
    return go_on_elsewhere(runs, "a", "moved", "cpu") + go_on_elsewhere(runs, "moved", "back", runs.device)


def go_on_elsewhere(runs, source, name, device):
    runs.branch(source, name)
    ran = runs.run(name, device)
    if ran.returncode:
        return check(False, f"{source} goes on on {device}: {ran.stderr}")
    want, got = runs.losses(source), runs.losses(name)
    worst = max(abs(got[s] / want[s] - 1) for s in range(HALF + 1, STEPS + 1))
    bound = BOUNDS[runs.dtype]
    moved = worst > 0 or runs.device == "cpu"  # two devices are never equal in every bit: it stayed where it was
    return check(moved and worst <= bound,
                 f"{source} goes on on {device}: losses differ by {worst:.1e} at most, bound {bound}")


def too_large(runs):
    """A run that goes on with micro-batches that no GPU holds (200 GiB), and then with its own again."""
    runs.branch("a", "large")
    before = runs.tensors("large", HALF)
    ran = runs.run("large", runs.device, ["phases.0.batch_tokens=2097152", "step.micro_tokens=2097152"])
    failed = check(ran.returncode == 4 and "out of memory" in ran.stderr,
                   f"a run that does not fit ends with code 4 and says why: {ran.returncode}: {ran.stderr[-300:]}")
    return failed + goes_on_as_before(runs, "large", before)


def goes_on_as_before(runs, name, before):
    failed = check(runs.tensors(name, HALF) == before, "the checkpoint before it is as it was")
    ran = runs.run(name, runs.device)
    return failed + check(ran.returncode == 0 and runs.tensors("a", STEPS) == runs.tensors(name, STEPS),
                          "the same command goes on from it and ends with the same bytes")


def failing_kernel(runs):
    """In the steps after the checkpoint of half of them; without and with waiting for each op."""
    runs.branch("a", "broken")
    before = runs.tensors("broken", HALF)
    for waits, wanted in (("0", r"found while \w+"), ("1", r"found while [\w ]+ \(\w+\)")):  # the op, when each is waited for
        ran = runs.run("broken", runs.device, TEPHRA_GPU_FAIL_AT="2000", TEPHRA_GPU_SYNC=waits)
        ok = (ran.returncode == 4 and re.search("a kernel failed on the GPU, " + wanted, ran.stderr)
              and "checkpoints already written are whole" in " ".join(ran.stderr.split()))
        if check(ok, f"a kernel that fails ends a run with code 4 and is named: {ran.returncode}: {ran.stderr[-300:]}"):
            return 1
    return goes_on_as_before(runs, "broken", before)


def lost_gpu(runs):
    """In the steps after the checkpoint of half of them: the vendor's words for a GPU that is gone, for one whose memory
    fails, and for a kernel that broke off."""
    runs.branch("a", "lost")
    before = runs.tensors("lost", HALF)
    for code, wanted in ((100, "the GPU was lost while"), (214, "the GPU was lost while"), (719, "a kernel failed on the GPU")):
        ran = runs.run("lost", runs.device, TEPHRA_GPU_FAIL_AT="2000", TEPHRA_GPU_FAIL_AS=str(code))
        said = " ".join(ran.stderr.split())
        ok = ran.returncode == 4 and wanted in said and "checkpoints already written are whole" in said
        if check(ok, f"error {code} ends a run with code 4 and is told: {ran.returncode}: {said[-300:]}"):
            return 1
    ran = runs.run("lost", runs.device, TEPHRA_GPU_FAIL_AS="719")
    failed = check(ran.returncode == 2 and "TEPHRA_GPU_FAIL_AT" in ran.stderr,
                   f"an error without the op that has it is code 2: {ran.returncode}: {ran.stderr[-300:]}")
    return failed + goes_on_as_before(runs, "lost", before)


def missing_gpu(runs):
    ran = runs.run("missing", runs.device, CUDA_VISIBLE_DEVICES="")
    return check(ran.returncode == 4 and "no GPU was found" in ran.stderr and "--device cpu" in ran.stderr,
                 f"a GPU that is not there is code 4: {ran.returncode}: {ran.stderr[-300:]}")


def failing_server(runs):
    """A kernel fails in the midst of an answer."""
    model = runs.scratch / "letters"
    subprocess.run([runs.tephra, "checkpoint", "random", "--quiet", "--config", runs.source / "tests/eval/config.json",
                    "--out", model], check=True, timeout=60)
    shutil.copy(runs.source / "tests/golden/tokenizer-byte-level/tokenizer.json", model)
    command = [runs.tephra, "serve", "--model", model, "--port", "0", "--device", runs.device, "--kv-memory", "64MiB"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, TEPHRA_GPU_FAIL_AT="2000"))
    deadline = threading.Timer(60, server.kill)
    deadline.start()
    status, said = 0, ""
    for line in server.stderr:
        said += line
        if found := re.search(r"served at http://127.0.0.1:(\d+)/v1", line):
            status = ask_for_tokens(int(found.group(1)), 1500)
    code = server.wait()
    deadline.cancel()
    return check(status == 500 and code == 4,
                 f"a server whose GPU fails answers 500 and ends with code 4: {status}, {code}: {said[-300:]}")


def ask_for_tokens(port, count):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"prompt": [5, 6, 7], "max_tokens": count, "ignore_eos": True})
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0


CHECKS = {"killed": killed_run, "moved": moved_run, "large": too_large, "kernel": failing_kernel,
          "lost": lost_gpu, "missing": missing_gpu, "server": failing_server}
FOR_BOTH = ("killed", "moved")  # make sense with --device cpu


def main():
    o = arguments()
    if o.device != "cpu":
        need_gpu(o.tephra)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(o, pathlib.Path(folder))
        failures = equal_runs(runs)
        for name in o.only:
            failures += CHECKS[name](runs)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stages of the data pipeline under a real mpirun, MPICH's too, and under srun where a Slurm controller answers: four ranks
leave the bytes of one process, and when one of them is killed all end, say so, and go on later. A batch job that does not
call srun is one process. Skipped where there is none of them.
    tests/data/mpirun_test.py TEPHRA_BINARY SOURCE_DIR"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 4
# Containers are often root's, and have fewer cores than ranks.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def answers(command):
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def launchers():
    """What starts ranks here, by name."""
    found = {}
    for name in ("mpirun", "mpirun.mpich"):
        if shutil.which(name):
            found[name] = [name, "-n", str(RANKS)]
    if shutil.which("srun") and answers(["scontrol", "ping"]):
        found["srun"] = ["srun", "--overcommit", "--kill-on-bad-exit=1", "-n", str(RANKS)]
    return found


def bytes_below(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(command):
    done = subprocess.run(command, env=ENVIRONMENT, text=True, capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def told(done):
    return re.sub(r"[0-9.]+ MB/s", "", done.stdout)


def rank_processes(out):
    """The processes of a run into that folder, by rank."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(out) in (entry / "cmdline").read_bytes().split(b"\0"):
                words = dict(word.partition(b"=")[::2] for word in (entry / "environ").read_bytes().split(b"\0"))
                for name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"SLURM_PROCID"):
                    if name in words:
                        found.setdefault(int(words[name]), int(entry.name))
        except OSError:
            continue  # it has ended
    return found


def ended(out):
    """Whether all ranks end; a launcher may be gone a moment before them."""
    for _ in range(300):
        if not rank_processes(out):
            return True
        time.sleep(0.1)
    return False


def check_shares(said):
    """Each rank has joined about its part of the records, and all of them together all."""
    shares = re.findall(r"rank (\d) of (\d) joins (\d+) of (\d+) band records", said)
    assert sorted(int(rank) for rank, *_ in shares) == list(range(RANKS)), said
    total = int(shares[0][3])
    assert total > 0 and sum(int(own) for _, _, own, _ in shares) == total, said
    assert all(abs(int(own) * RANKS / total - 1) < 0.25 for _, _, own, _ in shares), said


def at_once(_):
    return True


def in_exchange(out):
    """Whether ranks have begun to exchange records, and the third one has not joined its own."""
    folder = pathlib.Path(out) / ".dedup/exchange"
    return any(folder.glob("*/*.bands")) and not any(folder.glob("*/forest-2.list"))


def kill_one(command, out, when=at_once):
    """Kills the third rank when it is time; how the launcher ends, what all of them said, which is not the same everywhere,
    after how many seconds, and whether it still was time."""
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as started:
        victim = None
        while victim is None and started.poll() is None:
            victim = rank_processes(out).get(2)
        while started.poll() is None and not when(out):
            pass
        assert victim is not None, "it ended before it could be killed: " + started.stdout.read()
        try:
            os.kill(victim, signal.SIGSTOP)  # while it is looked at
            in_time = when(out)
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            in_time = False
        before = time.monotonic()
        said, _ = started.communicate(timeout=120)
        return started.returncode, said, time.monotonic() - before, in_time


class Work:
    """A corpus and the commands over it."""

    def __init__(self, tephra, source, scratch):
        self.tephra, self.source, self.scratch = tephra, source, scratch
        self.corpus, self.tokenizer = scratch / "corpus", scratch / "tokenizer"
        run([sys.executable, source / "tools/make_corpus.py", self.corpus, "600"])
        run([tephra, "tokenizer", "train", self.corpus / "books/a.jsonl", "--vocab-size", "500", "--out", self.tokenizer])

    def dedup(self, out):
        return [self.tephra, "data", "dedup", self.corpus / "web", self.corpus / "books", "--out", out, "--threads", "1"]

    def tokenize(self, out):
        return [self.tephra, "data", "tokenize", self.corpus / "web", self.corpus / "books", "--tokenizer",
                self.tokenizer, "--out", out / "shard", "--threads", "1"]

    def pipeline(self, out):
        return [self.tephra, "data", "run", self.source / "configs/data/example.toml", "--set",
                f'inputs=["web={self.corpus}/web", "books={self.corpus}/books"]', "--set", f'out="{out}"', "--set",
                f'stages.3.task=["quiz={self.corpus}/quiz.jsonl"]', "--set", f'tokens.tokenizer="{self.tokenizer}"',
                "--threads", "1"]

    def commands(self):
        return self.dedup, self.tokenize, self.pipeline

    def check(self, launcher, start, alone):
        """Four ranks as one process, and a kill."""
        for command in self.commands():
            name = command.__name__
            out = self.scratch / f"{name}-{launcher}"
            four = run(start + command(out))
            said = told(alone[name]).replace(str(self.scratch / f"{name}-one"), str(out))
            assert said == told(four), f"{launcher}: the first rank tells of all: {four.stdout}"
            assert bytes_below(out) == bytes_below(self.scratch / f"{name}-one"), f"{launcher}: {name}"
            if command != self.tokenize:
                check_shares(four.stderr)
        for when in (at_once, in_exchange):
            self.check_kill(launcher, start, when)

    def check_kill(self, launcher, start, when):
        """A rank is killed, and the same command goes on."""
        for attempt in range(20):  # the exchange is short: it may be over when the rank stops
            out = self.scratch / f"killed-{launcher}-{when.__name__}-{attempt}"
            code, said, seconds, in_time = kill_one(start + self.dedup(out), out, when)
            if in_time:
                break
        assert in_time, f"{launcher}: no rank could be killed {when.__name__}"
        assert code != 0 and not (out / "report.json").exists(), f"{launcher}: {code}: {said}"
        assert seconds < 90 and ended(out), f"{launcher}: {seconds} s: {said}"
        run(start + self.dedup(out))
        assert bytes_below(out) == bytes_below(self.scratch / "dedup-one"), launcher
        print(f"{launcher}: {RANKS} ranks as one; when one was killed {when.__name__} (attempt {attempt + 1}) the others "
              f"ended after {seconds:.1f} s")

    def check_batch_job(self):
        out, script = self.scratch / "pipeline-batch", self.scratch / "job.sh"
        script.write_text("#!/bin/sh\n" + shlex.join(map(str, self.pipeline(out))) + "\n", encoding="utf-8")
        run(["sbatch", "--wait", "--overcommit", "-n", str(RANKS), "-o", self.scratch / "job.txt", script])
        assert bytes_below(out) == bytes_below(self.scratch / "pipeline-one"), (self.scratch / "job.txt").read_text()
        print("sbatch: a script without srun is one process")


def main():
    tephra, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    found = launchers()
    if not found:
        print("skipped: there is no mpirun and no srun")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        work = Work(tephra, source, scratch)
        alone = {command.__name__: run(command(scratch / f"{command.__name__}-one")) for command in work.commands()}
        for launcher, start in found.items():
            work.check(launcher, start, alone)
        if "srun" in found:
            work.check_batch_job()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stages of the data pipeline under a real mpirun: four ranks leave the bytes of one process, and when one of them is
killed all end, say so, and go on later. Skipped where there is no mpirun.
    tests/data/mpirun_test.py TEPHRA_BINARY SOURCE_DIR"""
import os
import pathlib
import re
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
                rank = words.get(b"OMPI_COMM_WORLD_RANK", words.get(b"PMI_RANK"))
                if rank is not None:
                    found[int(rank)] = int(entry.name)
        except OSError:
            continue  # it has ended
    return found


def check_shares(said):
    """Each rank has joined about its part of the records, and all of them together all."""
    shares = re.findall(r"rank (\d) of (\d) joins (\d+) of (\d+) band records", said)
    assert sorted(int(rank) for rank, *_ in shares) == list(range(RANKS)), said
    total = int(shares[0][3])
    assert total > 0 and sum(int(own) for _, _, own, _ in shares) == total, said
    assert all(abs(int(own) * RANKS / total - 1) < 0.25 for _, _, own, _ in shares), said


def in_exchange(out):
    """Whether ranks have begun to exchange records, and the third one has not joined its own."""
    folder = pathlib.Path(out) / ".dedup/exchange"
    return any(folder.glob("*/*.bands")) and not any(folder.glob("*/forest-2.list"))


def kill_one(command, out, when=lambda out: True):
    """Kills the third rank when it is time; how mpirun ends, what all of them said, which is not the same everywhere,
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


def main():
    tephra, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    if not shutil.which("mpirun"):
        print("skipped: there is no mpirun")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        corpus = scratch / "corpus"
        run([sys.executable, source / "tools/make_corpus.py", corpus, "600"])
        tokenizer = scratch / "tokenizer"
        run([tephra, "tokenizer", "train", corpus / "books/a.jsonl", "--vocab-size", "500", "--out", tokenizer])

        def dedup(out):
            return [tephra, "data", "dedup", corpus / "web", corpus / "books", "--out", scratch / out, "--threads", "1"]

        def pipeline(out):
            return [tephra, "data", "run", source / "configs/data/example.toml", "--set",
                    f'inputs=["web={corpus}/web", "books={corpus}/books"]', "--set", f'out="{scratch / out}"', "--set",
                    f'stages.3.task=["quiz={corpus}/quiz.jsonl"]', "--set", f'tokens.tokenizer="{tokenizer}"',
                    "--threads", "1"]

        mpirun = ["mpirun", "-n", str(RANKS)]
        for command in (dedup, pipeline):
            one = run(command(f"{command.__name__}-one"))
            four = run(mpirun + command(f"{command.__name__}-four"))
            check_shares(four.stderr)
            assert told(one).replace("-one", "-four") == told(four), "the first rank tells of all: " + four.stdout
            want = bytes_below(scratch / f"{command.__name__}-one")
            assert bytes_below(scratch / f"{command.__name__}-four") == want, command.__name__

        for name, when in (("killed", lambda out: True), ("exchange", in_exchange)):
            for attempt in range(5):  # the exchange is short: it may be over when the rank stops
                out = f"{name}-{attempt}"
                code, said, seconds, in_time = kill_one(mpirun + dedup(out), scratch / out, when)
                if in_time:
                    break
            assert in_time, "no rank could be killed during the exchange"
            assert code != 0 and not (scratch / out / "report.json").exists(), f"{code}: {said}"
            assert seconds < 60 and not rank_processes(scratch / out), f"{seconds} s: {said}"
            assert name == "killed" or any((scratch / out / ".dedup/exchange").glob("*/*.bands")), said
            check_shares(run(mpirun + dedup(out)).stderr)
            assert bytes_below(scratch / out) == bytes_below(scratch / "dedup-one"), out
        print(f"{RANKS} ranks as one; when one was killed the others ended after {seconds:.1f} s")


if __name__ == "__main__":
    main()

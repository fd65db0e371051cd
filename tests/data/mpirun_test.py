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


def kill_one(command, out):
    """Kills the third rank; how mpirun ends and what all of them said, which is not the same everywhere."""
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as started:
        victim = None
        while victim is None and started.poll() is None:
            victim = rank_processes(out).get(2)
        assert victim is not None, "it ended before it could be killed: " + started.stdout.read()
        os.kill(victim, signal.SIGKILL)
        before = time.monotonic()
        said, _ = started.communicate(timeout=120)
        return started.returncode, said, time.monotonic() - before


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
            assert told(one).replace("-one", "-four") == told(four), "the first rank tells of all: " + four.stdout
            want = bytes_below(scratch / f"{command.__name__}-one")
            assert bytes_below(scratch / f"{command.__name__}-four") == want, command.__name__

        code, said, seconds = kill_one(mpirun + dedup("killed"), scratch / "killed")
        assert code != 0 and not (scratch / "killed/report.json").exists(), f"{code}: {said}"
        assert seconds < 60 and not rank_processes(scratch / "killed"), f"{seconds} s: {said}"
        run(mpirun + dedup("killed"))
        assert bytes_below(scratch / "killed") == bytes_below(scratch / "dedup-one")
        print(f"{RANKS} ranks as one; when one was killed the others ended after {seconds:.1f} s")


if __name__ == "__main__":
    main()

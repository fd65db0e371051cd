#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two steps of `tephra train --dry-run`, loader, balancing, metrics and logging included, on a token shard of documents
that are longer than the context, so that attention has as much to do as in `tephra bench train`.

    python3 bench/gpu/trainer_speed.py build/release/tephra [--model zaya1-8b] [--batch-tokens 524288]

Tokens are random ids of the whole vocabulary.
"""
import argparse
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
from array import array

DOCUMENT = 16 * 4096 + 5

CONFIG = """name = "speed"
seed = 1
[model]
preset = "{model}"
vocab_size = {vocabulary}
dtype = "bf16"
[data]
tokenizer = "bytes"
[[data.sources]]
name = "text"
kind = "shards"
paths = ["{shard}"]
[[phases]]
name = "pretrain"
steps = 10
context = {context}
batch_tokens = {batch}
lr = 1e-4
warmup_steps = 5
[optimizer]
newton_schulz_dtype = "bf16"
[step]
micro_tokens = {micro}
recompute = ["dispatch"]
[validation]
every_steps = 0
samples = 1
[evaluation]
every_steps = 0
tasks = 0
[log]
every_steps = 1
"""


def write_shard(prefix, tokens, vocabulary):
    """As docs/formats/token-shards.md has it, ids of four bytes."""
    lengths = [DOCUMENT] * (tokens // DOCUMENT + 1)
    draw = random.Random(1)
    ids = array("i", draw.choices(range(16, vocabulary), k=sum(lengths)))
    starts = [4 * DOCUMENT * i for i in range(len(lengths))]
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1)
    index += struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(starts)}q", *starts)
    index += struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1))
    pathlib.Path(f"{prefix}.bin").write_bytes(ids.tobytes())
    pathlib.Path(f"{prefix}.idx").write_bytes(index)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tephra")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--model", default="zaya1-8b")
    parser.add_argument("--vocabulary", type=int, default=262272)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--batch-tokens", type=int, default=524288)
    parser.add_argument("--micro-tokens", type=int, default=16384)
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shard = f"{folder}/text"
        write_shard(shard, 3 * o.batch_tokens, o.vocabulary)
        config = pathlib.Path(folder) / "speed.toml"
        config.write_text(CONFIG.format(model=o.model, vocabulary=o.vocabulary, shard=shard, context=o.context,
                                        batch=o.batch_tokens, micro=o.micro_tokens))
        ran = subprocess.run([o.tephra, "train", config, "--device", o.device, "--dry-run", "--out", f"{folder}/run"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print("\n".join(line for line in ran.stdout.splitlines() if line.startswith(("step ", "dry run", "tephra"))))
    sys.exit(ran.returncode)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two steps of `tephra train --dry-run` by configs/zaya1-8b-one-gpu.toml, loader, balancing, metrics and logging included, on a
token shard of documents that are longer than the context, so that attention has as much to do as in `tephra bench train`.

    python3 bench/gpu/trainer_speed.py build/release/tephra [--batch-tokens 524288] [FLAGS of tephra train...]

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

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "configs/zaya1-8b-one-gpu.toml"
DOCUMENT = 16 * 4096 + 5


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
    parser.add_argument("--vocabulary", type=int, default=262272)
    parser.add_argument("--batch-tokens", type=int, default=524288)
    o, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        shard = f"{folder}/text"
        write_shard(shard, 3 * o.batch_tokens, o.vocabulary)
        command = [o.tephra, "train", CONFIG, "--dry-run", "--out", f"{folder}/run"]
        for setting in ("data.tokenizer=bytes", f"model.vocab_size={o.vocabulary}", f'data.sources.0.paths=["{shard}"]',
                        f'data.sources.0.validation_paths=["{shard}"]', f"phases.0.batch_tokens={o.batch_tokens}",
                        "log.every_steps=1"):
            command += ["--set", setting]
        ran = subprocess.run([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print("\n".join(line for line in ran.stdout.splitlines() if line.startswith(("step ", "dry run", "tephra"))))
    sys.exit(ran.returncode)


if __name__ == "__main__":
    main()

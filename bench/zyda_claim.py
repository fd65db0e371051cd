#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The claim of Zyda at small scale: bench/zyda_claim.py TEPHRA ESSAYS.json OUT [--seeds 3] [--steps 150]. Raw text (running
text cut into documents, copies of some of them, edited copies, and generated junk) and what `tephra data run` leaves
of it train the same small model on the same number of tokens, with several seeds each; the loss on text that
neither has seen is compared. Prints a table and writes OUT/claim.json. A run that is there is not repeated."""
import argparse
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from make_corpus import edited, junk  # noqa: E402
from make_prose import documents  # noqa: E402

HELD_OUT = 10  # one document in so many
CONTEXT, BATCH = 256, 4096
COPIED = 60  # documents of which there are copies
SHARES = {"copies": 0.35, "junk": 0.30}  # of the raw documents

PIPELINE = """inputs = ["web={raw}"]
out = "{out}"
[[stages]]
kind = "filter"
preset = ["zyda1", "gopher"]
# Running text cut at any line has few paragraphs, and its lines end anywhere.
threshold = ["gopher.ellipsis_lines=1"]
[[stages]]
kind = "dedup"
max_loss = 1.0
"""

CONFIG = """name = "{name}"
seed = {seed}
[model]
hidden_size = 128
num_hidden_layers = 4
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 32
num_experts = 4
moe_intermediate_size = 128
router_hidden_size = 64
max_position_embeddings = 1024
rope_theta = 10000.0
[data]
tokenizer = "{tokenizer}"
[[data.sources]]
name = "text"
kind = "shards"
paths = ["{shard}"]
[[phases]]
name = "pretrain"
steps = {steps}
context = {context}
batch_tokens = {batch}
lr = 8e-3
warmup_steps = 15
schedule = "wsd"
decay_steps = {decay}
[balancing]
lr = 1e-2
[step]
micro_tokens = {batch}
[checkpoints]
every_steps = {steps}
"""


def make_raw(essays, folder):
    rng = random.Random(11)
    texts = list(documents(essays))
    held_out = texts[::HELD_OUT]
    train = [text for i, text in enumerate(texts) if i % HELD_OUT]
    total = len(train) / (1 - sum(SHARES.values()))
    raw = list(train)
    for _ in range(int(total * SHARES["copies"])):
        text = rng.choice(train[:COPIED])
        raw.append(edited(rng, text) if rng.random() < 0.5 else text)
    for _ in range(int(total * SHARES["junk"])):
        raw.append("\n".join(junk(rng) for _ in range(rng.randrange(1, 12))))
    rng.shuffle(raw)
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    with open(folder / "raw" / "a.jsonl", "w", encoding="utf-8") as out:
        out.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in raw)
    (folder / "held-out.txt").write_text("\n\n".join(held_out), encoding="utf-8")
    (folder / "train.txt").write_text("\n\n".join(train), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tephra")
    parser.add_argument("essays")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    out = args.out.resolve()

    def tephra(*words):
        command = [args.tephra, *map(str, words), "--quiet"]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    if not (out / "tokenizer" / "tokenizer.json").exists():
        make_raw(args.essays, out)
        (out / "pipeline.toml").write_text(PIPELINE.format(raw=out / "raw", out=out / "processed"))
        tephra("data", "run", out / "pipeline.toml")
        tephra("tokenizer", "train", out / "train.txt", "--vocab-size", 1024, "--out", out / "tokenizer")
    shards = {}
    for name, folder in [("raw", out / "raw"), ("processed", out / "processed" / "dedup" / "documents")]:
        shards[name] = out / "shards" / name
        if not shards[name].with_suffix(".idx").exists():
            shards[name].parent.mkdir(exist_ok=True)
            tephra("data", "tokenize", folder, "--tokenizer", out / "tokenizer", "--out", shards[name], "--append-eos")
    losses = {name: [] for name in shards}
    for seed in range(1, args.seeds + 1):
        for name, shard in shards.items():
            run = out / "runs" / f"{name}-{seed}"
            result = run.with_suffix(".json")
            if not result.exists():
                run.parent.mkdir(exist_ok=True)
                run.with_suffix(".toml").write_text(CONFIG.format(
                    name=name, seed=seed, tokenizer=out / "tokenizer", shard=shard, steps=args.steps,
                    context=CONTEXT, batch=BATCH, decay=args.steps // 3))
                tephra("train", run.with_suffix(".toml"), "--out", run, "--device", "cpu", "--threads", args.threads)
                tephra("checkpoint", "export", "--from", run, "--to", str(run) + "-model")
                result.write_text(tephra("eval", "--model", str(run) + "-model", "--text", out / "held-out.txt",
                                         "--window", CONTEXT, "--device", "cpu", "--threads", args.threads, "--json"))
            measured = with_key(json.loads(result.read_text()), "nats")
            losses[name].append(measured["nats"] / measured["tokens"])
            print(name, seed, losses[name][-1], flush=True)
    report(losses, args, shards, out)


def with_key(value, key):
    """The first object with the key anywhere in the JSON."""
    if isinstance(value, dict) and key in value:
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return next((found for part in parts if (found := with_key(part, key))), None)


def report(losses, args, shards, out):
    tokens = {name: shard.with_suffix(".bin").stat().st_size // 2 for name, shard in shards.items()}
    mean = {name: statistics.mean(values) for name, values in losses.items()}
    error = {name: statistics.stdev(values) / math.sqrt(len(values)) for name, values in losses.items()}
    for name in losses:
        print(f"{name:10} {tokens[name]:9} tokens  held-out loss {mean[name]:.4f} +- {error[name]:.4f}")
    difference = mean["raw"] - mean["processed"]
    spread = math.hypot(error["raw"], error["processed"])
    print(f"processed is lower by {difference:.4f} nats a token, {difference / spread:.1f} standard errors "
          f"({args.seeds} seeds each, {args.steps * BATCH} tokens each run)")
    (out / "claim.json").write_text(json.dumps({"losses": losses, "tokens": tokens, "difference": difference,
                                                "standard_errors": difference / spread}, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Token probabilities of the engine and of the training pass, of a model that was trained a moment before on a GPU: heads of
128 in bf16, for which training has fast attention. The engine takes a kernel for each phase of a layer: the one for all
layers together is for the published width alone. The text is one that the model draws itself.

    gpu_trained_test.py TEPHRA SOURCE_DIR [--steps 100] [--tokens 512]

Exit code 77 (skipped) where there is no GPU.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from gpu import need_gpu  # noqa: E402

SETTINGS = ["model.hidden_size=1024", "model.num_hidden_layers=8", "model.num_attention_heads=8", "model.head_dim=128",
            "model.moe_intermediate_size=1024", "model.router_hidden_size=256", "model.dtype=bf16",
            "optimizer.newton_schulz_dtype=bf16", "phases.0.context=1024", "phases.0.batch_tokens=65536",
            "step.micro_tokens=32768", "phases.0.warmup_steps=20", "phases.0.lr=1e-3", "checkpoints.every_steps=0",
            "validation.every_steps=0", "validation.samples=1", "evaluation.tasks=0"]


def run(*command):
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if ran.returncode:
        print(f"FAIL  {command[1]}: code {ran.returncode}: {ran.stderr.strip()[-500:]}")
        sys.exit(1)
    return ran.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tephra")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=512)
    o = parser.parse_args()
    need_gpu(o.tephra)
    with tempfile.TemporaryDirectory() as folder:
        sets = [word for s in [*SETTINGS, f"phases.0.steps={o.steps}", f"phases.0.decay_steps={o.steps // 3}"]
                for word in ("--set", s)]
        run(o.tephra, "train", o.source / "configs/tiny.toml", "--device", "gpu", "--quiet", "--out", f"{folder}/run", *sets)
        print("trained", flush=True)
        losses = [json.loads(line)["loss"] for line in open(f"{folder}/run/metrics.jsonl")]
        run(o.tephra, "checkpoint", "export", "--from", f"{folder}/run", "--to", f"{folder}/model")
        report = json.loads(run(o.tephra, "verify", "--model", f"{folder}/model", "--engine", "--json", "--quiet",
                                "--tokens", str(o.tokens), "--dtype", "bf16", "--device", "gpu"))
    kl = report["checks"][0]
    print(f"loss {losses[0]:.2f} to {losses[-1]:.2f} in {o.steps} steps; {report['notes'][0]}")
    print(f"ok    mean KL of {o.tokens} tokens, experts replayed: {kl['max_abs']:.2e}, bound {kl['bound']}")


if __name__ == "__main__":
    main()

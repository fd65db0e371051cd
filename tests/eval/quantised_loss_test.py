#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What quantising costs a model that was just trained: KL and changed choices over held-out tasks, within the bounds
that we promise for 8 and 4 bits.

    quantised_loss_test.py TEPHRA SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

# Seconds of training, enough to be sure of most tokens.
SMALLER = ["model.hidden_size=64", "model.num_hidden_layers=2", "phases.0.steps=150", "phases.0.decay_steps=60",
           "phases.0.batch_tokens=2048", "step.micro_tokens=2048", "evaluation.tasks=0", "validation.every_steps=0",
           "checkpoints.every_steps=0", 'data.sources.0.environments=["comparison","counting"]']
BOUNDS = {8: (1e-3, 0.995), 4: (2e-2, 0.97)}  # mean KL in nats at most, same likeliest token at least


def main():
    tephra, source = sys.argv[1], pathlib.Path(sys.argv[2])

    def run(*words):
        ran = subprocess.run([tephra, *words, "--quiet"], capture_output=True, text=True, timeout=280)
        assert ran.returncode == 0, f"{words}: code {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model"
        sets = [word for key in SMALLER for word in ("--set", key)]
        run("train", source / "configs/quickstart.toml", "--out", f"{folder}/run", *sets)
        run("checkpoint", "export", "--from", f"{folder}/run", "--to", model)
        for bits, (kl, same) in BOUNDS.items():
            packed = f"{folder}/{bits}"
            run("checkpoint", "quantize", "--model", model, "--bits", str(bits), "--out", packed)
            found = json.loads(run("eval", "--model", packed, "--against", model, "--samples", "60", "--environments",
                                   "comparison:1-2,counting:1-2", "--max-kl", str(kl), "--min-agreement", str(same),
                                   "--json"))
            assert found["tokens"] > 5000 and found["nats_per_token"]["against"] < 0.3, found
            print(f"ok    {bits} bits: mean KL {found['kl']['mean']:.2g}, at most {kl}; same likeliest token "
                  f"{100 * found['top1_agreement']:.2f} %, at least {100 * same}")


if __name__ == "__main__":
    main()

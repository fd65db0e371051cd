#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CCA, GQA and MLA at equal parameters and cache, and MHA for reference: the same config, data and steps for each.

    bench/attention_quality.py TEPHRA CONFIG.toml OUT [--steps N] [--set KEY=VALUE ...]

The shapes are for a hidden size of 1024 (configs/100m-active.toml). The inner width of the experts is chosen so that
each has as many active parameters as CCA, within a step of 16. Prints a table: cache per token and layer, parameters,
held-out loss, tokens/s of the steps. Beware of the last column on a GPU: only widths that are multiples of 256 have fast
grouped products, so a baseline may be slow because of its experts and not of its attention.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

# Elements of cache a token and layer: CCA 2 x 2 x 64 and a few of fixed state.
VARIANTS = {
    "cca": (256, {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64}),
    "gqa": (256, {"attention_type": '"gqa"', "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 64}),
    "mla": (256, {"attention_type": '"mla"', "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": 0,
                  "kv_lora_rank": 224, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64}),
    "mha": (2048, {"attention_type": '"mha"', "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 64}),
}


def settings(variant, inner, common):
    out = list(common)
    for key, value in VARIANTS[variant][1].items():
        out += ["--set", f"model.{key}={value}"]
    return out + ["--set", f"model.moe_intermediate_size={inner}"]


def active(tephra, config, variant, inner, common):
    plan = subprocess.run([tephra, "train", config, "--plan", *settings(variant, inner, common)],
                          capture_output=True, text=True)
    match = re.search(r"([\d,]+) of these active", plan.stdout + plan.stderr)
    if not match:
        sys.exit(plan.stdout + plan.stderr)
    return int(match[1].replace(",", ""))


def inner_width(tephra, config, variant, target, common):
    low, high = 1, 128  # times 16
    while low < high:
        middle = (low + high) // 2
        if active(tephra, config, variant, 16 * middle, common) < target:
            low = middle + 1
        else:
            high = middle
    around = [16 * w for w in (low - 1, low) if w > 0]
    return min(around, key=lambda w: abs(active(tephra, config, variant, w, common) - target))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tephra")
    parser.add_argument("config")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    o = parser.parse_args()
    common = ["--set", f"phases.0.steps={o.steps}", "--set", f"phases.0.decay_steps={o.steps // 3}",
              "--set", "evaluation.tasks=0", "--set", "checkpoints.every_steps=0"]
    for value in o.set:
        common += ["--set", value]
    target = active(o.tephra, o.config, "cca", 1024, common)
    print("| attention | cache, elements | experts' width | active parameters | held-out loss | tokens/s |\n|---|---|---|---|---|---|")
    for variant, (cache, _) in VARIANTS.items():
        inner = 1024 if variant == "cca" else inner_width(o.tephra, o.config, variant, target, common)
        folder = o.out / variant
        subprocess.run([o.tephra, "train", o.config, "--out", str(folder), "--device", o.device, "--quiet",
                        *settings(variant, inner, common)], check=True)
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        held_out = [line["val_loss"] for line in lines if "val_loss" in line][-1]
        speeds = sorted(line["timing"]["tokens_per_second"] for line in lines[10:] if "timing" in line) or [float("nan")]
        print(f"| {variant} | {cache} | {inner} | {active(o.tephra, o.config, variant, inner, common):,} | "
              f"{held_out:.4f} | {speeds[len(speeds) // 2]:,.0f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CCA, GQA and MLA at equal parameters and cache, and MHA for reference: the same config, data and steps for each.

    bench/attention_quality.py TEPHRA CONFIG.toml OUT [--steps N] [--at-once] [--set KEY=VALUE ...]
    bench/attention_quality.py TEPHRA CONFIG.toml OUT --shapes    # only what would be trained

The shapes are for a hidden size of 1024 (configs/100m-active.toml). All have eight query heads of 64; they differ in how
keys and values come about and what is kept of them. The inner width of the experts is chosen so that each has as many active
parameters as CCA, within a step of 8; all parameters then differ by as much times the number of experts. --at-once runs the
four beside each other, which a GPU shares among them: their speeds are then not comparable. Prints a table: cache of a token
and layer, parameters, steps, seconds of training with validation, the mean training loss of the last 20 steps and the
held-out loss; then the losses on the way.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

# Elements of cache a token and layer: CCA 2 x 2 x 64 and a few of fixed state.
VARIANTS = {
    "cca": (256, {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64}),
    "gqa": (256, {"attention_type": '"gqa"', "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64}),
    "mla": (256, {"attention_type": '"mla"', "num_attention_heads": 8, "num_key_value_heads": 8, "q_lora_rank": 0,
                  "kv_lora_rank": 224, "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 64}),
    "mha": (1024, {"attention_type": '"mha"', "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64}),
}
LAST = 20  # steps whose training losses are averaged
POINTS = 8  # of a curve


def settings(variant, inner, common):
    out = list(common)
    for key, value in VARIANTS[variant][1].items():
        out += ["--set", f"model.{key}={value}"]
    return out + ["--set", f"model.moe_intermediate_size={inner}"]


def parameters(tephra, config, variant, inner, common):
    """Active ones, and all."""
    plan = subprocess.run([tephra, "train", config, "--plan", *settings(variant, inner, common)],
                          capture_output=True, text=True)
    text = plan.stdout + plan.stderr
    active, every = re.search(r"([\d,]+) of these active", text), re.search(r"([\d,]+) parameters", text)
    if not active or not every:
        sys.exit(text)
    return tuple(int(m[1].replace(",", "")) for m in (active, every))


def inner_width(o, variant, target, common):
    low, high = 1, 256  # times 8
    while low < high:
        middle = (low + high) // 2
        if parameters(o.tephra, o.config, variant, 8 * middle, common)[0] < target:
            low = middle + 1
        else:
            high = middle
    around = [8 * w for w in (low - 1, low) if w > 0]
    return min(around, key=lambda w: abs(parameters(o.tephra, o.config, variant, w, common)[0] - target))


def trained(o, variant, inner, common):
    """The metrics of a run, one dictionary a line."""
    folder = o.out / variant
    ran = subprocess.run([o.tephra, "train", o.config, "--out", str(folder), "--device", o.device, "--quiet",
                          *settings(variant, inner, common)], capture_output=True, text=True)
    if ran.returncode:
        print(f"{variant}: exit code {ran.returncode}: {ran.stderr[-500:]}", file=sys.stderr, flush=True)
    lines = folder / "metrics.jsonl"
    return [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []


def table_row(cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def mean_loss(lines):
    """Over the last steps of these."""
    last = [line["loss"] for line in lines][-LAST:]
    return f"{sum(last) / len(last):.4f}" if last else "–"


def row(variant, inner, counts, lines):
    held_out = [line["val_loss"] for line in lines if "val_loss" in line]
    speeds = sorted(line["timing"]["tokens_per_second"] for line in lines[10:])
    return table_row([variant, VARIANTS[variant][0], inner, f"{counts[0]:,}", f"{counts[1]:,}", len(lines),
                      f"{sum(line['timing']['wall'] for line in lines):.1f}", mean_loss(lines),
                      f"{held_out[-1]:.4f}" if held_out else "–",
                      f"{speeds[len(speeds) // 2]:,.0f}" if speeds else "–"])


def curves(runs):
    """The training loss over the steps up to each of some, and the held-out loss where there is one."""
    steps = max(map(len, runs.values()))
    points = [steps * i // POINTS for i in range(1, POINTS + 1)]
    print("\n" + table_row(["training loss up to step", *points]) + "\n|---" + "|---:" * len(points) + "|")
    for variant, lines in runs.items():
        print(table_row([variant, *(mean_loss(lines[:step]) for step in points)]))
    for variant, lines in runs.items():
        print(f"held-out loss, {variant}:", ", ".join(f"step {line['step']} {line['val_loss']:.4f}" for line in lines
                                                      if "val_loss" in line))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tephra")
    parser.add_argument("config")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--at-once", action="store_true", help="all four beside each other")
    parser.add_argument("--shapes", action="store_true", help="print the shapes and their parameters; train nothing")
    parser.add_argument("--widths", help="of the experts, of cca,gqa,mla,mha: found before, not searched again")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    o = parser.parse_args()
    common = ["--set", f"phases.0.steps={o.steps}", "--set", f"phases.0.decay_steps={o.steps // 3}",
              "--set", "evaluation.tasks=0", "--set", "checkpoints.every_steps=0"]
    for value in o.set:
        common += ["--set", value]
    if o.widths:
        widths = dict(zip(VARIANTS, map(int, o.widths.split(","))))
    else:
        target = parameters(o.tephra, o.config, "cca", 1024, common)[0]
        widths = {v: 1024 if v == "cca" else inner_width(o, v, target, common) for v in VARIANTS}
    print("| attention | cache, elements | experts' width | active parameters | parameters | steps | seconds | training loss "
          "| held-out loss | tokens/s |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(4 if o.at_once else 1) as pool:
        runs = {v: None if o.shapes else pool.submit(trained, o, v, widths[v], common) for v in VARIANTS}
        counts = {v: parameters(o.tephra, o.config, v, widths[v], common) for v in VARIANTS}
        for variant, run in runs.items():
            print(row(variant, widths[variant], counts[variant], run.result() if run else []), flush=True)
    if not o.shapes:
        curves({variant: run.result() for variant, run in runs.items()})


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where a training step of ZAYA1-8B goes, kernel by kernel, beside what each must do and what this GPU is seen to do a
moment later: a table in Markdown. Products and copies are timed through PyTorch, long enough to be warm.

    python3 bench/gpu/step_table.py build/release/tephra [--batch-tokens 131072]

"Must" is the larger of two times: of an op's FLOPs at the rate of a square product, and of its bytes (each input and each
output once; what is added to, twice) at the rate of a copy. "Share" is must / measured. The loss is also held against its
own three products.
"""
import argparse
import json
import statistics
import subprocess
import sys

H, LAYERS, VOCAB, CONTEXT, MICRO = 2048, 40, 262272, 4096, 16384
QUERIES, KEYS = 1024, 256
EXPERT = 2 * H * H + H * H  # gate and up, down
# In and out of a layer's dense products: attention's projections, the router.
WIDTHS = ((H, QUERIES + 2 * KEYS), (QUERIES, H), (H, 256), (256, 256), (256, 256), (256, 17))
DENSE = sum(i * o for i, o in WIDTHS)
ATTENTION = 4 * QUERIES * CONTEXT / 2
GROUPED_CONV = 4 * (QUERIES + KEYS) * 128  # two taps of a head
ROW = 2 * H  # bytes of a token in bf16

# FLOPs of a step: for each token, and once.
FLOPS = {
    "LinearCrossEntropy": (6 * H * VOCAB, 0),
    "GroupedLinear": (2 * LAYERS * EXPERT, 0),
    "GroupedLinearGrad": (4 * LAYERS * EXPERT, 0),
    "Linear": (2 * LAYERS * DENSE, 0),
    "LinearGrad": (4 * LAYERS * DENSE, 0),
    "Attention": (LAYERS * ATTENTION, 0),
    "AttentionGrad": (2.5 * LAYERS * ATTENTION, 0),
    "CcaQkvGrad": (3 * LAYERS * GROUPED_CONV, 0),  # once more forward, and both gradients
    "NewtonSchulz": (0, 306e12),  # of what symmetry leaves to be done
}
BOTH = 2 + 4 + 4  # bytes of a weight that is read, and whose gradient in f32 is added to
EXPERTS = 16

# Bytes of a token in each call, of each call, and of a step.
BYTES = {
    "LinearCrossEntropy": (2 * ROW, VOCAB * H * BOTH, 0),
    "GroupedLinear": (ROW * (3 + 2) / 2, EXPERTS * EXPERT * 2 / 2, 0),
    "GroupedLinearGrad": (ROW * (4 + 3) / 2, EXPERTS * EXPERT * BOTH / 2, 0),
    "Linear": (2 * sum(i + o for i, o in WIDTHS) / 6, 2 * DENSE / 6, 0),
    "LinearGrad": (2 * sum(2 * i + o for i, o in WIDTHS) / 6, BOTH * DENSE / 6, 0),
    "Attention": (2 * (2 * QUERIES + 2 * KEYS) + 32, 0, 0),
    "AttentionGrad": (2 * (4 * QUERIES + 4 * KEYS) + 32, 0, 0),
    "NewtonSchulz": (0, 0, 33e9),
    "MergeNorm": (6 * ROW, 0, 0),
    "MergeNormGrad": (9 * ROW, 0, 0),
    "CcaQkv": (4 * (QUERIES + 2 * KEYS), 0, 0),
    "CcaQkvGrad": (6 * (QUERIES + 2 * KEYS), 0, 0),
    "Swiglu": (3 * ROW, 0, 0),
    "SwigluGrad": (5 * ROW, 0, 0),
    "GatherRows": (2 * ROW, 0, 0),
    "ScatterRows": (2 * ROW, 0, 0),
    "Gelu": (1024, 0, 0),
    "GeluGrad": (1536, 0, 0),
    "MuonMomentum": (0, 0, 133e9),
    "MuonUpdate": (0, 0, 83e9),
    "SumSquares": (0, 0, 35e9),
}


def seconds(work, least=0.4):
    """The median of single calls after others that took so long together."""
    import torch

    times, total = [], 0.0
    while total < 2 * least or len(times) < 5:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        took = begin.elapsed_time(end) / 1e3
        total += took
        if total > least:
            times.append(took)
    return statistics.median(times)


def product_rate(m, n, k):
    import torch

    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return 2 * m * n * k / seconds(lambda: torch.mm(a, b, out=c))


def copy_rate():
    import torch

    a = torch.ones(1 << 31, device="cuda", dtype=torch.uint8)
    b = torch.empty_like(a)
    return 2 * a.numel() / seconds(lambda: b.copy_(a), 0.1)


def ceilings():
    chunk = 4096  # tokens at a time, as the loss takes them
    return {"square": product_rate(8192, 8192, 8192), "copy": copy_rate(),
            "loss": [product_rate(chunk, VOCAB, H), product_rate(chunk, H, VOCAB), product_rate(VOCAB, H, chunk)]}


def profiled_step(tephra, tokens):
    ran = subprocess.run([tephra, "bench", "train", "--model", "zaya1-8b", "--device", "gpu", "--context", str(CONTEXT),
                          "--micro-tokens", str(MICRO), "--recompute", "dispatch", "--batch-tokens", str(tokens),
                          "--steps", "1", "--profile", "--json", "--quiet"],
                         stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout)


def counted(name, calls, tokens):
    """FLOPs and bytes of a step, zeros where nobody has counted."""
    each, once = FLOPS.get(name, (0, 0))
    token, call, step = BYTES.get(name, (0, 0, 0))
    return each * tokens + once, (token * MICRO + call) * calls + step


def table(step, peak):
    print("| kernels of | calls | ms | FLOPs | bytes | does | must ms | share |")
    print("|---|---:|---:|---:|---:|---|---:|---:|")
    others = 0.0
    for kernel in sorted(step["kernels"], key=lambda k: -k["milliseconds"]):
        name, calls, ms = kernel["name"], kernel["calls"], kernel["milliseconds"]
        flops, moved = counted(name, calls, step["batch_tokens"])
        if not flops and not moved and ms < 5:
            others += ms
            continue
        by_flops, by_bytes = 1e3 * flops / peak["square"], 1e3 * moved / peak["copy"]
        needed = max(by_flops, by_bytes)
        rate = f"{flops / ms / 1e9:.0f} TFLOP/s" if by_flops > by_bytes else f"{moved / ms / 1e9:.2f} TB/s"
        known = f"{rate} | {needed:.1f} | {100 * needed / ms:.0f} % |" if needed else " | | |"
        print(f"| {name} | {calls} | {ms:.1f} | {flops / 1e12:.0f} T | {moved / 1e9:.0f} GB | {known}")
    total = sum(k["milliseconds"] for k in step["kernels"])
    print(f"| all others | | {others:.1f} | | | | | |\n| together | | {total:.1f} | | | | | |")


def unmatched(step):
    """Keys of the tables above that no kernel of the profile has: their rows would be missing without a word."""
    return sorted({*FLOPS, *BYTES} - {k["name"] for k in step["kernels"]})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tephra")
    parser.add_argument("--batch-tokens", type=int, default=131072)
    o = parser.parse_args()
    step = profiled_step(o.tephra, o.batch_tokens)  # needs nearly all memory, so before PyTorch takes some
    peak = ceilings()
    print(f"A product of 8192 x 8192 x 8192 {peak['square'] / 1e12:.0f} TFLOP/s, "
          f"a copy {peak['copy'] / 1e12:.2f} TB/s")
    print(f"a step of {o.batch_tokens} tokens: {min(step['seconds']):.3f} s, {step['tokens_per_second']:.0f} tokens/s, "
          f"the optimizer {step['optimizer_seconds']:.3f} s")
    table(step, peak)
    if missing := unmatched(step):
        sys.exit(f"no kernel of the profile is called {', '.join(missing)}")
    loss = next(k["milliseconds"] for k in step["kernels"] if k["name"] == "LinearCrossEntropy") / 1e3
    each = FLOPS["LinearCrossEntropy"][0] * o.batch_tokens / 3
    alone = sum(each / rate for rate in peak["loss"])
    rates = ", ".join(f"{rate / 1e12:.0f}" for rate in peak["loss"])
    print(f"the loss: its three products alone, of 4096 tokens, do {rates} TFLOP/s, {1e3 * alone:.0f} ms of its "
          f"{1e3 * loss:.0f}: share {100 * alone / loss:.1f} %")


if __name__ == "__main__":
    main()

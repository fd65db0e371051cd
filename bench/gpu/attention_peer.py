# SPDX-License-Identifier: Apache-2.0
"""Times cuDNN's attention (through PyTorch) and ours on the same shapes in turn, in one run.

python3 bench/gpu/attention_peer.py build/release/attention_bench 2x4096 4x4096 1x16384 1x16384d64

Causal, bf16, 8 query heads on 2 KV heads of 128 (or as wide in heads of 64 or 256), random numbers; FLOPs are
4 (forward) and 10 (backward) times 1024 * documents * tokens^2 / 2 for both.
"""

import math
import re
import statistics
import subprocess
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

COLUMNS, KV_COLUMNS = 1024, 256


def milliseconds(work, calls=10):
    """Ten calls at a time, so that the host keeps ahead of the device; the median of nine such."""
    times = []
    for i in range(10):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        if i > 0:
            times.append(begin.elapsed_time(end) / calls)
    return statistics.median(times)


def peer(documents, tokens, dim):
    def tensor(columns):
        shape = documents, columns // dim, tokens, dim
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    q, k, v = tensor(COLUMNS), tensor(KV_COLUMNS), tensor(KV_COLUMNS)
    for x in (q, k, v):
        x.requires_grad_()

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        )

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        with torch.no_grad():
            ahead = milliseconds(forward)
        o, d_o = forward(), tensor(COLUMNS)
        back = milliseconds(
            lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)
        )
    return ahead, back


def main():
    bench, shapes = sys.argv[1], sys.argv[2:]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, "
          f"cuDNN {torch.backends.cudnn.version()}")
    print(f"{'shape':>10} {'pass':>9} {'ours':>9} {'cuDNN':>9} {'ours':>7} {'cuDNN':>7} {'share':>7}")
    print(f"{'':>10} {'':>9} {'ms':>9} {'ms':>9} {'TFLOP/s':>7} {'TFLOP/s':>7}", flush=True)
    for shape in shapes:
        documents, tokens, dim = re.fullmatch(r"(\d+)x(\d+)(?:d(\d+))?", shape).groups()
        documents, tokens = int(documents), int(tokens)
        try:
            theirs = peer(documents, tokens, int(dim or 128))
        except RuntimeError as error:  # ours is still of interest
            print(f"{shape:>10} cuDNN: {error}", flush=True)
            theirs = math.nan, math.nan
        said = subprocess.run([bench, shape], capture_output=True, text=True, check=False).stdout
        found = re.search(r"forward (\S+) ms .* backward (\S+) ms", said)
        if not found:
            print(f"{shape:>10} {said}", flush=True)
            continue
        flops = 4 * COLUMNS * documents * tokens**2 / 2
        for name, ours, other, factor in zip(
            ("forward", "backward"), map(float, found.groups()), theirs, (1, 2.5)
        ):
            rate = [factor * flops / ms / 1e9 for ms in (ours, other)]
            print(f"{shape:>10} {name:>9} {ours:9.4f} {other:9.4f} {rate[0]:7.0f} {rate[1]:7.0f} "
                  f"{100 * other / ours:6.1f}%", flush=True)
        if "NOT THE SAME" in said:
            print(said, flush=True)


if __name__ == "__main__":
    main()

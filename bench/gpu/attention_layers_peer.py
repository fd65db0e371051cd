# SPDX-License-Identifier: Apache-2.0
"""Whole layers of attention, projections included: ours (`tephra bench attention`) beside multi-head attention by cuDNN
through PyTorch, in one run.

python3 bench/gpu/attention_layers_peer.py build/release/tephra [--tokens 512,4096,16384] [--head-dim 64,128,256]

One causal sequence in bf16, times as `tephra bench attention` takes them: the median of single calls, each waited for.
The peer neither rotates queries and keys nor norms anything, and its weight gradients are bf16: it does less. Both are
measured for one size of heads before the next; each form is compared with the faster of the two multi-head attentions.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def median_seconds(once, budget):
    once()  # warms up
    seconds, begin = [], time.perf_counter()
    while len(seconds) < 5 or (time.perf_counter() - begin < budget and len(seconds) < 200):
        seconds.append(once())
    return statistics.median(seconds)


def timed(work):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


class Mha(torch.nn.Module):
    def __init__(self, width, head_dim):
        super().__init__()
        self.head_dim = head_dim
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)

    def forward(self, h):
        tokens, width = h.shape
        q, k, v = self.qkv(h).view(1, tokens, 3, width // self.head_dim, self.head_dim).permute(2, 0, 3, 1, 4)
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(o.transpose(1, 2).reshape(tokens, width))


def peer(width, head_dim, tokens, budget):
    """Seconds forward and backward; without end where cuDNN has nothing for the shape."""
    try:
        return measured(width, head_dim, tokens, budget)
    except RuntimeError as error:
        print(f"cuDNN, heads of {head_dim}, {tokens} tokens: {error}", file=sys.stderr, flush=True)
        return math.inf, math.inf


def measured(width, head_dim, tokens, budget):
    layer = Mha(width, head_dim).to("cuda", torch.bfloat16)
    h = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    dy = torch.randn_like(h)

    def backward():
        layer.zero_grad(set_to_none=True)
        h.grad = None
        y = layer(h)
        return timed(lambda: y.backward(dy))

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        with torch.no_grad():
            forward = median_seconds(lambda: timed(lambda: layer(h)), budget)
        return forward, median_seconds(backward, budget)


def own(o, head_dim):
    """What `tephra bench attention` says of heads of this size."""
    ran = subprocess.run([o.tephra, "bench", "attention", "--device", "gpu", "--tokens", o.tokens, "--head-dim", head_dim,
                          "--seconds", str(o.seconds), "--json", "--quiet"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout)


def compare(ours, budget):
    for tokens in dict.fromkeys(row["tokens"] for row in ours["rows"]):
        rows = [row for row in ours["rows"] if row["tokens"] == tokens]
        head_dim = rows[0]["head_dim"]
        times = {row["form"]: (row["forward_seconds"], row["backward_seconds"]) for row in rows}
        times["MHA, cuDNN"] = peer(ours["width"], head_dim, tokens, budget)
        best = [min(of_both) for of_both in zip(times["MHA"], times["MHA, cuDNN"])]
        for form, (forward, backward) in times.items():
            print(f"{head_dim:>4} {tokens:>6} {form:<12} {1e3 * forward:>10.3f} {'x':>10} {best[0] / forward:5.2f} "
                  f"{1e3 * backward:>11.3f} {'x':>10} {best[1] / backward:5.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tephra")
    parser.add_argument("--tokens", default="512,1024,2048,4096,8192,16384,32768")
    parser.add_argument("--head-dim", default="128,64,256")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each figure")
    o = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print(f"{'head':>4} {'tokens':>6} {'form':<12} {'forward ms':>10} {'best MHA over it':>16} {'backward ms':>11} "
          f"{'best MHA over it':>16}", flush=True)
    for head_dim in o.head_dim.split(","):
        compare(own(o, head_dim), o.seconds)


if __name__ == "__main__":
    main()

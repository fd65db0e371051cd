# SPDX-License-Identifier: Apache-2.0
"""Whole layers of attention, projections included: ours (`tephra bench attention`) beside multi-head attention by cuDNN
through PyTorch, in one run.

python3 bench/gpu/attention_layers_peer.py build/release/tephra [--tokens 512,4096,16384] [--head-dim 64,128,256]

One causal sequence in bf16, times as `tephra bench attention` takes them: the median of single calls, each waited for.
The peer neither rotates queries and keys nor norms anything, and its weight gradients are bf16: it does less.
"""

import argparse
import json
import statistics
import subprocess
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def median_seconds(once, budget=0.2):
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


def peer(width, head_dim, tokens):
    """Seconds forward and backward."""
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
            forward = median_seconds(lambda: timed(lambda: layer(h)))
        return forward, median_seconds(backward)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tephra")
    parser.add_argument("--tokens", default="512,1024,2048,4096,8192,16384,32768")
    parser.add_argument("--head-dim", default="64,128,256")
    o = parser.parse_args()
    ours = json.loads(subprocess.run(
        [o.tephra, "bench", "attention", "--device", "gpu", "--tokens", o.tokens, "--head-dim", o.head_dim, "--json",
         "--quiet"], capture_output=True, text=True, check=True).stdout)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print(f"{'head':>4} {'tokens':>6} {'form':<12} {'forward ms':>10} {'cuDNN MHA over it':>17} {'backward ms':>11} "
          f"{'cuDNN MHA over it':>17}")
    theirs = {}
    for row in ours["rows"]:
        at = row["head_dim"], row["tokens"]
        if at not in theirs:
            theirs[at] = peer(ours["width"], *at)
            show(*at, "MHA, cuDNN", *theirs[at], theirs[at])
        show(*at, row["form"], row["forward_seconds"], row["backward_seconds"], theirs[at])


def show(head_dim, tokens, form, forward, backward, peers):
    print(f"{head_dim:>4} {tokens:>6} {form:<12} {1e3 * forward:>10.3f} {'x':>11} {peers[0] / forward:5.2f} "
          f"{1e3 * backward:>11.3f} {'x':>11} {peers[1] / backward:5.2f}", flush=True)


if __name__ == "__main__":
    main()

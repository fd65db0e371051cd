# SPDX-License-Identifier: Apache-2.0
"""Times attention of others and ours on the same shapes in turn, in one run.

python3 bench/gpu/attention_peer.py build/release/attention_bench 2x4096 4x4096 1x16384 1x16384d64
python3 bench/gpu/attention_peer.py build/release/attention_bench --deterministic 1x16384 1x16384d64
python3 bench/gpu/attention_peer.py build/release/attention_bench 1x16384w1024 4x4096w1024 --flex

Causal, bf16, 8 query heads on 2 KV heads of 128 (or as wide in heads of 64 or 256), random numbers; FLOPs are
4 (forward) and 10 (backward) times 1024 * documents * pairs that are seen for all; without a window these count as
tokens^2 / 2. The peer is cuDNN, through PyTorch. That has no windows and refuses to be --deterministic (the same bits every
time, as ours), so for both it is reached through JAX. With windows PyTorch's FlashAttention and, with --flex, its compiled
FlexAttention are peers, too, and the share is of the fastest.
"""

import argparse
import functools
import math
import os
import re
import statistics
import subprocess
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

COLUMNS, KV_COLUMNS = 1024, 256
BITS = {True: " same bits", False: " other bits", None: " did not run"}


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


def tensors(documents, tokens, dim):
    def tensor(columns):
        shape = documents, columns // dim, tokens, dim
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    q, k, v = (tensor(columns).requires_grad_() for columns in (COLUMNS, KV_COLUMNS, KV_COLUMNS))
    return q, k, v, tensor(COLUMNS)


def timed(forward, inputs, d_o):
    """Both passes in ms, and whether the second has the same bits twice."""
    with torch.no_grad():
        ahead = milliseconds(forward)
    o = forward()

    def backward():
        return torch.autograd.grad(o, inputs, d_o, retain_graph=True)

    once = backward()
    back = milliseconds(backward)
    return ahead, back, all(torch.equal(a, b) for a, b in zip(once, backward()))


def cudnn(documents, tokens, dim):
    q, k, v, d_o = tensors(documents, tokens, dim)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return timed(functools.partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, is_causal=True,
                                       enable_gqa=True), (q, k, v), d_o)


class Flash(torch.autograd.Function):
    """PyTorch's own FlashAttention, which takes windows, with rows before heads."""

    @staticmethod
    def forward(ctx, q, k, v, window):
        ctx.window, tokens = window, q.shape[1]
        o, lse, seed, offset, _ = torch.ops.aten._flash_attention_forward(
            q, k, v, None, None, tokens, tokens, 0.0, True, False, window_size_left=window - 1, window_size_right=0)
        ctx.save_for_backward(q, k, v, o, lse, seed, offset)
        return o

    @staticmethod
    def backward(ctx, d_o):
        q, k, v, o, lse, seed, offset = ctx.saved_tensors
        tokens = q.shape[1]
        found = torch.ops.aten._flash_attention_backward(
            d_o, q, k, v, o, lse, None, None, tokens, tokens, 0.0, True, seed, offset,
            window_size_left=ctx.window - 1, window_size_right=0)
        return *found, None


def flash(documents, tokens, dim, window):
    q, k, v, d_o = (x.detach().transpose(1, 2).contiguous() for x in tensors(documents, tokens, dim))
    for x in (q, k, v):
        x.requires_grad_()
    return timed(lambda: Flash.apply(q, k, v, window), (q, k, v), d_o)


def flex(documents, tokens, dim, window):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v, d_o = tensors(documents, tokens, dim)
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < window), None, None, tokens, tokens, "cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    return timed(lambda: compiled(q, k, v, block_mask=mask, enable_gqa=True), (q, k, v), d_o)


def jax_cudnn(documents, tokens, dim, window):
    import jax

    def tensor(columns, seed):
        return jax.random.normal(jax.random.key(seed), (documents, tokens, columns // dim, dim), "bfloat16")

    inputs, d_o = [tensor(c, i) for i, c in enumerate((COLUMNS, KV_COLUMNS, KV_COLUMNS))], tensor(COLUMNS, 3)
    forward = jax.jit(functools.partial(jax.nn.dot_product_attention, is_causal=True,
                                        local_window_size=(window - 1, 0) if window else None,
                                        implementation="cudnn"))
    _, pull = jax.vjp(forward, *inputs)
    backward = jax.jit(lambda p, d: p(d))

    def median(work, calls=10):
        times = []
        for _ in range(10):
            begin = time.perf_counter()
            for _ in range(calls):
                last = work()
            jax.block_until_ready(last)
            times.append((time.perf_counter() - begin) / calls * 1e3)
        return statistics.median(times[1:])

    once = backward(pull, d_o)
    times = median(lambda: forward(*inputs)), median(lambda: backward(pull, d_o))
    same = all((a == b).all() for a, b in zip(once, backward(pull, d_o)))
    return *times, bool(same)


def pairs_of(documents, tokens, window):
    if not window:
        return documents * tokens**2 / 2
    return documents * sum(min(i + 1, window) for i in range(tokens))


def peers(o, documents, tokens, dim, window):
    """Each peer's name and times; one that has nothing for the shape says so."""
    found = {"cuDNN": functools.partial(cudnn, documents, tokens, dim)}
    if o.deterministic:
        found = {"cuDNN": functools.partial(jax_cudnn, documents, tokens, dim, window)}
    elif window:
        of_windows = {"cuDNN": jax_cudnn, "Flash": flash, **({"Flex": flex} if o.flex else {})}
        found = {name: functools.partial(peer, documents, tokens, dim, window) for name, peer in of_windows.items()}
    for name, measure in found.items():
        try:
            yield name, measure()
        except Exception as error:  # whatever keeps it from running: ours is still of interest
            print(f"{name}: {str(error)[:300]}", flush=True)
            yield name, (math.nan, math.nan, None)


def compare(o, shape):
    documents, tokens, window, dim = (int(x or 0) for x in
                                      re.fullmatch(r"(\d+)x(\d+)(?:w(\d+))?(?:d(\d+))?", shape).groups())
    theirs = list(peers(o, documents, tokens, dim or 128, window))
    said = subprocess.run([o.bench, shape], capture_output=True, text=True, check=False).stdout
    found = re.search(r"forward (\S+) ms .* backward (\S+) ms", said)
    if not found:
        return print(f"{shape:>14} {said}", flush=True)
    ours = [float(x) for x in found.groups()]
    best = [min((t[i] for _, t in theirs if not math.isnan(t[i])), default=math.nan) for i in (0, 1)]
    for name, times in theirs:
        for i, (text, factor) in enumerate((("forward", 4), ("backward", 10))):
            flops = factor * COLUMNS * pairs_of(documents, tokens, window)
            rate = [flops / ms / 1e9 for ms in (ours[i], times[i])]
            bits = BITS[times[2]] if i else ""
            print(f"{shape:>14} {text:>9} {name:>6} {ours[i]:9.4f} {times[i]:9.4f} {rate[0]:7.0f} {rate[1]:7.0f} "
                  f"{100 * best[i] / ours[i]:6.1f}%{bits}", flush=True)
    if "NOT THE SAME" in said:
        print(said, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("shapes", nargs="+")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--flex", action="store_true", help="compiles for ten seconds or more a shape")
    o = parser.parse_args()
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if o.deterministic:
        os.environ["XLA_FLAGS"] = "--xla_gpu_deterministic_ops=true"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
          f"{', deterministic' if o.deterministic else ''}")
    print(f"{'shape':>14} {'pass':>9} {'peer':>6} {'ours':>9} {'peer':>9} {'ours':>7} {'peer':>7} {'share':>7}")
    print(f"{'':>14} {'':>9} {'':>6} {'ms':>9} {'ms':>9} {'TFLOP/s':>7} {'TFLOP/s':>7}", flush=True)
    for shape in o.shapes:
        compare(o, shape)


if __name__ == "__main__":
    main()

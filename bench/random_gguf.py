#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a GGUF file with random weights: a dense Llama whose decoded token reads as many bytes as one of
ZAYA1-8B, for llama.cpp as a peer of `tephra bench decode`. Q8_0 and Q4_0 have 8.5 and 4.5 bits a weight,
as tephra's 8 and 4 bits have.

    bench/random_gguf.py OUT.gguf 8|4
"""
import os
import struct
import sys

HIDDEN, LAYERS, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2048, 12, 8576, 16, 4, 128, 262272
F32, Q4_0, Q8_0 = 0, 2, 8
ALIGN = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def setting(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    return text(key) + struct.pack("<II", 4, value)


def settings_list(key, kind, values):
    pack = {8: text, 6: lambda v: struct.pack("<f", v), 5: lambda v: struct.pack("<i", v)}[kind]
    return text(key) + struct.pack("<IIQ", 9, kind, len(values)) + b"".join(map(pack, values))


def vocabulary():
    """llama.cpp's library wants one even where only token ids are used."""
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    types = [2, 3, 3] + [6] * 256
    more = VOCAB - len(words)
    return [
        setting("tokenizer.ggml.model", "llama"),
        settings_list("tokenizer.ggml.tokens", 8, words + [f"w{i}" for i in range(more)]),
        settings_list("tokenizer.ggml.scores", 6, [0.0] * VOCAB),
        settings_list("tokenizer.ggml.token_type", 5, types + [1] * more),
    ]


def tensors(kind):
    kv = KV_HEADS * HEAD_DIM
    yield "token_embd.weight", (HIDDEN, VOCAB), kind
    for i in range(LAYERS):
        at = f"blk.{i}."
        yield at + "attn_norm.weight", (HIDDEN,), F32
        yield at + "attn_q.weight", (HIDDEN, HEADS * HEAD_DIM), kind
        yield at + "attn_k.weight", (HIDDEN, kv), kind
        yield at + "attn_v.weight", (HIDDEN, kv), kind
        yield at + "attn_output.weight", (HEADS * HEAD_DIM, HIDDEN), kind
        yield at + "ffn_norm.weight", (HIDDEN,), F32
        yield at + "ffn_gate.weight", (HIDDEN, FFN), kind
        yield at + "ffn_up.weight", (HIDDEN, FFN), kind
        yield at + "ffn_down.weight", (FFN, HIDDEN), kind
    yield "output_norm.weight", (HIDDEN,), F32


def size_of(shape, kind):
    count = 1
    for extent in shape:
        count *= extent
    return {F32: 4 * count, Q8_0: count // 32 * 34, Q4_0: count // 32 * 18}[kind]


def blocks(size, kind):
    """Random codes under one small scale; a stretch of them is repeated."""
    if kind == F32:
        return struct.pack("<f", 1.0) * (size // 4)
    codes = 32 if kind == Q8_0 else 16
    scale = struct.pack("<e", 0.0004 if kind == Q8_0 else 0.006)
    piece = b"".join(scale + os.urandom(codes) for _ in range(1 << 12))
    return (piece * (size // len(piece) + 1))[:size]


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ("8", "4"):
        sys.exit(__doc__)
    kind = Q8_0 if sys.argv[2] == "8" else Q4_0
    settings = [
        setting("general.architecture", "llama"),
        setting("llama.context_length", 4096),
        setting("llama.embedding_length", HIDDEN),
        setting("llama.block_count", LAYERS),
        setting("llama.feed_forward_length", FFN),
        setting("llama.attention.head_count", HEADS),
        setting("llama.attention.head_count_kv", KV_HEADS),
        setting("llama.attention.layer_norm_rms_epsilon", 1e-5),
        setting("llama.rope.dimension_count", HEAD_DIM),
        setting("llama.vocab_size", VOCAB),
    ] + vocabulary()
    entries, offset, infos = list(tensors(kind)), 0, b""
    for name, shape, type_ in entries:
        infos += text(name) + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", type_, offset)
        offset += (size_of(shape, type_) + ALIGN - 1) // ALIGN * ALIGN
    header = b"GGUF" + struct.pack("<IQQ", 3, len(entries), len(settings)) + b"".join(settings) + infos
    with open(sys.argv[1], "wb") as out:
        out.write(header + b"\0" * (-len(header) % ALIGN))
        for name, shape, type_ in entries:
            size = size_of(shape, type_)
            out.write(blocks(size, type_) + b"\0" * (-size % ALIGN))
    read = sum(size_of(shape, type_) for _, shape, type_ in entries)
    print(read)  # bytes that one token reads: every tensor, the embedding as the output projection


if __name__ == "__main__":
    main()

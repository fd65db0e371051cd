#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether two builds have the same kernels, byte for byte: for changes that only move code about. Needs no GPU and no
disassembler.

python3 bench/gpu/same_code.py BEFORE AFTER

BEFORE and AFTER are build folders (of which the rooms' kernels are compared), libraries, object files or cubins. Compared are
instructions, constants, shared memory, registers and stacks. Names of files and of unnamed namespaces do not count; a
kernel whose name changed otherwise is found by its code. Exit code 1: something differs; 2: there is nothing to compare.
"""

import pathlib
import re
import struct
import sys

KEPT = (".text.", ".nv.constant", ".nv.shared.", ".nv.global")
# Attributes that begin with a symbol's number, which says nothing: frame and stack sizes, registers, constant bank, externs.
OF_SYMBOLS = {0x0A, 0x0F, 0x11, 0x12, 0x23, 0x2F}


def refuse(text):
    print(text, file=sys.stderr)
    sys.exit(2)


def plain(name):
    return re.sub(r"\d*_GLOBAL__N__[0-9a-f]{8}_\d+_\w*?_cu_[0-9a-f]{8}(_\d+)?", "(unnamed)", name)


def text_at(data, at):
    return data[at:data.index(b"\0", at)].decode()


def sections(elf):
    """Of a 64-bit ELF file: name and content."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    count, names = struct.unpack_from("<HH", elf, 0x3C)
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, table + 64 * i) for i in range(count)]
    for name, kind, _, _, at, size, *_ in heads:
        empty = kind == 8  # of which only the size is in the file
        yield text_at(elf, heads[names][4] + name), struct.pack("<Q", size) if empty else elf[at:at + size]


def attributes(data, symbols):
    """What, of which symbol (or of none), its value."""
    found, at = [], 0
    while at < len(data):
        form, what, value = struct.unpack_from("<BBH", data, at)
        at, symbol = at + 4, None
        if form == 4:  # value is the size of what follows
            value, at = data[at:at + value], at + value
            if what in OF_SYMBOLS:
                symbol, value = symbols[struct.unpack_from("<I", value)[0]], value[4:]
        found.append((what, symbol, value))
    return found


def add_cubin(cubin, parts):
    content = dict(sections(cubin))
    names, table = content[".strtab"], content[".symtab"]
    symbols = [plain(text_at(names, struct.unpack_from("<I", table, at)[0])) for at in range(0, len(table), 24)]
    for name, data in content.items():
        if name.startswith(KEPT):
            parts.setdefault(plain(name), []).append(data)
        elif name == ".nv.info":
            for what, symbol, value in attributes(data, symbols):
                if symbol:
                    parts.setdefault(f"attribute {what:#x} of {symbol}", []).append(value)
        elif name.startswith(".nv.info."):
            values = [(what, value) for what, _, value in attributes(data, symbols)]
            parts.setdefault(plain(name), []).append(values)


def cubins(data):
    """Those within the fat binaries of an object file; a cubin is one itself."""
    content = dict(sections(data))
    if ".nv_fatbin" not in content:
        if any(name.startswith(".nv.info") for name in content):
            yield data
        return
    fat, at = content[".nv_fatbin"], 0
    while at < len(fat):
        magic, _, head, size = struct.unpack_from("<IHHQ", fat, at)
        assert magic == 0xBA55ED50, "not a fat binary"
        entry, at = at + head, at + head + size
        while entry < at:
            _, _, skip, length = struct.unpack_from("<HHIQ", fat, entry)
            cubin, entry = fat[entry + skip:entry + skip + length], entry + skip + length
            assert cubin[:4] == b"\x7fELF", "compressed, or not machine code"
            yield cubin


def members(archive):
    at = 8
    while at < len(archive):
        size = int(archive[at + 48:at + 58])
        data = archive[at + 60:at + 60 + size]
        if data[:4] == b"\x7fELF":
            yield data
        at += 60 + size + size % 2


def kernels(path):
    files = sorted(path.glob("rooms/libtephra_*_gpu.a")) if path.is_dir() else [path]
    parts = {}
    for file in files:
        try:
            data = file.read_bytes()
        except OSError as error:
            refuse(f"{file}: {error.strerror}")
        if data[:4] != b"\x7fELF" and data[:8] != b"!<arch>\n":
            refuse(f"{file}: neither a library nor an object file")
        for one in members(data) if data[:8] == b"!<arch>\n" else [data]:
            for cubin in cubins(one):
                add_cubin(cubin, parts)
    if not parts:
        refuse(f"{path}: no kernels")
    return parts


def undo_renaming(before, after):
    """Kernels that have the same code under another name get their old one."""
    gone = [k for k in before if k not in after and k.startswith(".text.")]
    come = [k for k in after if k not in before and k.startswith(".text.")]
    for old in gone:
        new = next((k for k in come if after[k] == before[old]), None)
        if new is None:
            continue
        come.remove(new)
        print(f"renamed: {old[6:]} -> {new[6:]}")
        for key in [k for k in after if k.endswith(new[6:])]:
            after[key[:-len(new[6:])] + old[6:]] = after.pop(key)


def main():
    if len(sys.argv) != 3:
        refuse(__doc__)
    before, after = (kernels(pathlib.Path(word)) for word in sys.argv[1:])
    count = sum(k.startswith(".text.") for k in before)
    undo_renaming(before, after)
    different = [k for k in sorted(before.keys() | after.keys()) if before.get(k) != after.get(k)]
    for key in different:
        print("only before:" if key not in after else "only after:" if key not in before else "differs:", key)
    print(f"{count} kernels, {len(different)} differences")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()

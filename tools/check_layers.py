#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom. A room includes itself and what its row of tephra/CMakeLists.txt
reaches; a vendor's header appears only where VENDORS says. Prints each violation."""
import pathlib
import re
import sys
import tempfile

ROOM = re.compile(r"^\s*tephra_(room|test)\((\w+)([^)]*)\)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)

# Header prefix -> the paths (as patterns) that may include it.
VENDORS = {
    "fmt/": r"tephra/base/format\.h",
    "toml++/": r"tephra/base/config_toml\.cpp",
    "nlohmann/": r"tephra/base/json\.cpp",
    "xxhash.h": r"tephra/base/hash\.cpp",
    "simdjson": r"tephra/data/json_line\.cpp",
    "brotli/": r"tephra/io/(content_coding|page_codec)\.cpp|tests/.*",
    "zlib.h": r"tephra/io/(byte_reader|content_coding|page_codec)\.cpp|tests/.*",
    "zstd.h": r"tephra/io/(byte_reader|content_coding|zstd_frame|page_codec)\.cpp|tests/.*",
    "hwy/": r"tephra/device/.*|tephra/ops/\w+_cpu\.cpp|tephra/ops/\w+-inl\.h|tephra/optim/\w+_cpu\.cpp|tephra/data/dedup/\w+_cpu\.cpp",
    "dnnl": r"tephra/device/.*",
    "oneapi/": r"tephra/device/.*",
    "omp.h": r"tephra/device/cpu/.*",
    "pcre2": r"tephra/text/regex\.cpp",
    "utf8proc": r"(tephra/text/unicode_utf8proc|tephra/text/jinja_unicode|tests/text/unicode_test)\.cpp",
    "curl/": r"tephra/hub/web_client\.cpp",
    "gtest/": r"tests/.*",
    "mpi.h": r"tephra/comm/.*",
    "nccl": r"tephra/comm/.*",
    "rccl": r"tephra/comm/.*",
    "cuda": r"tephra/device/gpu/.*",
    "cublas": r"tephra/device/gpu/.*",
    "cudnn": r"tephra/device/gpu/.*",
    "hip": r"tephra/device/gpu/.*|tests/emulated_gpu/.*",
}


def read_rows(text, kind):
    """Room -> the rooms it links, from a CMakeLists.txt."""
    rows = {}
    for found, name, rest in ROOM.findall(text):
        if found != kind:
            continue
        words, links, taking = rest.split(), [], False
        for word in words:
            if word.isupper():
                taking = word == "LINKS"
            elif taking:
                links.append(word)
        rows[name] = links
    return rows


def reach(name, rows, seen=None):
    seen = set() if seen is None else seen
    if name not in seen:
        seen.add(name)
        for link in rows.get(name, []):
            reach(link, rows, seen)
    return seen


def check_rows(rows):
    """Rows are in order, bottom up, so a cycle or a forgotten room cannot hide."""
    known, problems = set(), []
    for name, links in rows.items():
        problems += [f"tephra/CMakeLists.txt: {name} links {link}, which is not a row above it"
                     for link in links if link not in known]
        known.add(name)
    return problems


def check_file(path, text, allowed, root):
    """`allowed`: the rooms this file may include."""
    problems = []
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        ours, vendor = match.group(1), match.group(2)
        where = f"{path}:{line}"
        if ours is not None:
            parts = ours.split("/")
            if parts[0] == "tests":
                if not path.startswith("tests/"):
                    problems.append(f"{where}: product code includes the test header {ours}")
            elif parts[0] != "tephra":
                problems.append(f"{where}: \"{ours}\" is not a path from the root (tephra/...)")
            elif parts[1] not in allowed:
                problems.append(f"{where}: {path.split('/')[1]} may not include {parts[1]} ({ours})")
            if not (root / ours).is_file():
                problems.append(f"{where}: {ours} does not exist")
        else:
            for prefix, pattern in VENDORS.items():
                if vendor.startswith(prefix) and not re.fullmatch(pattern, path):
                    problems.append(f"{where}: <{vendor}> belongs in {pattern}")
    return problems


def check_tree(root):
    rows = read_rows((root / "tephra/CMakeLists.txt").read_text(), "room")
    tests = read_rows((root / "tests/CMakeLists.txt").read_text(), "test")
    problems = check_rows(rows)
    files = [f for top in ("tephra", "tests") for ext in ("h", "cpp", "cu")
             for f in sorted((root / top).rglob(f"*.{ext}"))]
    for file in files:
        path = file.relative_to(root).as_posix()
        top, room = path.split("/")[:2]
        if top == "tephra":
            if room not in rows:
                problems.append(f"{path}: {room} has no row in tephra/CMakeLists.txt")
                continue
            allowed = reach(room, rows)
        else:
            # A test sees what it links; support is for all of them, so it may see everything.
            links = tests.get(room, rows if room == "support" else [room])
            allowed = set().union(*(reach(link, rows) for link in links)) | reach("io", rows)
        problems += check_file(path, file.read_text(), allowed, root)
    return problems, len(files)


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        files = {
            "tephra/CMakeLists.txt": "tephra_room(base USES x)\ntephra_room(io LINKS base)\n"
                                     "tephra_room(nn LINKS io)\n",
            "tests/CMakeLists.txt": "tephra_test(base LINKS base)\n",
            "tephra/base/a.h": "#pragma once\n",
            "tephra/base/up.cpp": '#include "tephra/base/a.h"\n#include "tephra/io/b.h"\n',
            "tephra/io/b.h": '#include "tephra/base/a.h"\n',
            "tephra/nn/c.cpp": '#include "tephra/base/a.h"\n#include <vector>\n',
            "tephra/nn/fmt.cpp": "#include <fmt/core.h>\n",
            "tephra/nn/gone.cpp": '#include "tephra/nn/gone.h"\n',
            "tephra/nn/near.cpp": '  #  include "c.h"\n',
            "tephra/lost/d.h": "\n",
            "tests/base/a_test.cpp": '#include <gtest/gtest.h>\n#include "tephra/nn/c.cpp"\n',
        }
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = sorted(p.split(":")[0] for p in check_tree(root)[0])
        want = sorted(["tephra/base/up.cpp", "tephra/nn/fmt.cpp", "tephra/nn/gone.cpp",
                       "tephra/nn/near.cpp", "tephra/nn/near.cpp", "tephra/lost/d.h",
                       "tests/base/a_test.cpp"])
        assert found == want, f"expected violations in {want}, found {found}"
        assert check_rows({"a": ["b"], "b": ["a"]}), "a cycle must be reported"


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root = pathlib.Path(__file__).resolve().parent.parent
    problems, count = check_tree(root)
    print("\n".join(problems) if problems else f"layers: {count} files keep to their rooms")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

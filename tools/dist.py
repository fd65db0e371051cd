#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs an installed tephra with the libraries it needs beyond glibc into a tarball that runs on other
Debian and Ubuntu machines of the same architecture:
    tools/dist.py BUILD_DIR VERSION OUT.tar.gz
The tarball says which glibc it needs. The same commit and packages give the same bytes."""
import gzip
import io
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

# glibc's own parts belong to the machine, as its loader does.
SYSTEM = re.compile(r"^(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|util|resolv|anl))\.so\.\d+$|^linux-vdso")
README = """tephra {version}: foundation models from text to a served model

  bin/tephra --help

Runs where it is unpacked; put bin/ on your PATH or link bin/tephra from there. Needs {machine} and
glibc {glibc} or newer (Debian 12, Ubuntu 24.04 and later have it). What else it needs is in lib/, with
licences in share/doc/. `tephra pull` uses the machine's own libcurl (package libcurl4) and certificates
(package ca-certificates). A GPU is used through the driver's own libraries.
"""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries(binary):
    """Name -> file, of everything the loader brings in."""
    found = {}
    for line in output("ldd", str(binary)).splitlines():
        match = re.match(r"\s*(\S+) => (\S+|not found)", line)
        if match and not SYSTEM.match(match.group(1)):
            if not match.group(2).startswith("/"):
                sys.exit(f"dist: {match.group(1)} is missing on this machine")
            found[match.group(1)] = pathlib.Path(match.group(2)).resolve()
    return found


def glibc_of(files):
    """The newest symbol version of glibc that any of them asks for."""
    newest = (2, 0)
    for file in files:
        for version in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", output("readelf", "-V", "--wide", str(file))):
            newest = max(newest, tuple(map(int, version)))
    return ".".join(map(str, newest))


def copyright_of(library):
    for path in (library, str(library).removeprefix("/usr")):
        done = subprocess.run(["dpkg", "-S", str(path)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            package = done.stdout.split(":")[0]
            text = pathlib.Path("/usr/share/doc", package, "copyright")
            return (package, text) if text.exists() else (package, None)
    return library.name, None


def fill(root, build, version):
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(root), "--strip"], check=True,
                   stdout=subprocess.DEVNULL)
    binary = root / "bin/tephra"
    (root / "lib").mkdir()
    for name, file in libraries(binary).items():
        shutil.copy(file, root / "lib" / name)
        package, text = copyright_of(file)
        if text is None:
            print(f"dist: {name}: no licence text was found for it", file=sys.stderr)
            continue
        folder = root / "share/doc" / package
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(text, folder / "copyright")
    source = pathlib.Path(__file__).resolve().parent.parent
    for name in ("LICENSE", "CHANGELOG.md"):
        shutil.copy(source / name, root / name)
    shutil.copytree(source / "configs", root / "share/tephra/configs")
    glibc = glibc_of([binary, *(root / "lib").iterdir()])
    (root / "README").write_text(README.format(version=version, machine=platform.machine(), glibc=glibc))
    return glibc


def pack(root, out, when):
    def plain(info):
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        info.mtime = when
        info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
        return info

    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted([root, *root.rglob("*")]):
            tar.add(path, arcname=str(path.relative_to(root.parent)), recursive=False, filter=plain)
    with open(out, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=when, filename="") as zipped:
        zipped.write(held.getvalue())


def main():
    build, version, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    when = int(output("git", "log", "-1", "--format=%ct").strip() or 0)
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch) / out.name.removesuffix(".tar.gz")
        glibc = fill(root, build, version)
        pack(root, out, when)
    print(f"dist: {out}, {out.stat().st_size / 2**20:.1f} MiB, for {platform.machine()} with glibc {glibc} "
          "or newer")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""English text for a training run, from Debian's documentation packages and folders of one's own:

    apt-get download linux-doc-6.1 python3.11-doc postgresql-doc-15 git-doc debian-handbook debian-policy
    tools/make_text.py OUT.jsonl *.deb essays.json

Every HTML page, text file or entry of a JSON list of strings becomes one document {"text": ...}: titles,
headings, paragraphs, lists and code, without navigation. Pages that are not English (by their path) and those of
fewer than 500 characters are left out. Deterministic: the files are taken in the order of their names. One line in
fifty goes to OUT-validation.jsonl.
"""
import html.parser
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile

SKIP = {"script", "style", "nav", "footer", "head", "form"}
BLOCKS = {"p", "div", "li", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "tr", "dt", "dd", "br", "table", "section"}
FOREIGN = re.compile(r"/(?!en\b)[a-z]{2}(-[A-Z]{2})?/|/[a-z]{2}-[A-Z]{2}/|translations/|genindex|/_sources/|_modules/")


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts, self.skipped, self.verbatim = [], 0, 0

    def handle_starttag(self, tag, attrs):
        role = dict(attrs).get("role") or dict(attrs).get("class") or ""
        if tag in SKIP or (self.skipped == 0 and tag == "div" and re.search("navigation|sidebar|related", role)):
            self.skipped += 1
        elif self.skipped and tag == "div":
            self.skipped += 1
        self.verbatim += tag == "pre"
        if tag in BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        if self.skipped and (tag in SKIP or tag == "div"):
            self.skipped -= 1
        self.verbatim -= tag == "pre"
        if tag in BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.skipped:
            self.parts.append(data if self.verbatim else re.sub(r"\s+", " ", data))


def page_text(data):
    page = Page()
    page.feed(data.decode("utf-8", "replace"))
    text = "".join(page.parts).replace("\u00b6", "")
    return re.sub(r"[ \t]*\n(\s*\n)+", "\n\n", text).strip()


def package_files(path):
    raw = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        for member in sorted(tar.getmembers(), key=lambda m: m.name):
            if member.isfile():
                yield member.name, tar.extractfile(member).read()


def documents(path):
    if path.suffix == ".deb":
        for name, data in package_files(path):
            if name.endswith(".html") and not FOREIGN.search(name):
                yield page_text(data)
    elif path.suffix == ".json":
        items = json.loads(path.read_text())
        for item in items if isinstance(items, list) else items.values():
            yield item if isinstance(item, str) else item.get("text", "")
    else:
        yield path.read_text(errors="replace")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    held_out = out.with_name(out.stem + "-validation" + out.suffix)
    count = 0
    with out.open("w") as train, held_out.open("w") as validation:
        for path in sorted(map(pathlib.Path, sys.argv[2:]), key=lambda p: p.name):
            for text in documents(path):
                if len(text) < 500:
                    continue
                count += 1
                (validation if count % 50 == 0 else train).write(json.dumps({"text": text}) + "\n")
    print(f"{count} documents, {out.stat().st_size / 1e6:.1f} and {held_out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

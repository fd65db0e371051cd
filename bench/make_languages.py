#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents in many languages for the agreement row of language ID: bench/make_languages.py OUT.jsonl [FOLDER]. Takes the
translated messages of programs that are installed (FOLDER, default /usr/share/locale: *.mo), and makes documents of
about 6 kB of each language that has so many. Nothing of it is kept in this repository."""
import gettext
import json
import pathlib
import random
import sys

DOCUMENT = 6000
PER_LANGUAGE = 40


def main():
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "/usr/share/locale")
    rng = random.Random(1)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for language in sorted(folder.iterdir()):
            texts = set()
            for path in sorted(language.glob("LC_MESSAGES/*.mo")):
                try:
                    with open(path, "rb") as file:
                        catalog = gettext.GNUTranslations(file)._catalog
                except (OSError, ValueError, LookupError):
                    continue
                for key, text in catalog.items():
                    if key and isinstance(text, str) and len(text) > 40 and "%" not in text and text != key:
                        texts.add(" ".join(text.split()))
            texts = sorted(texts)
            rng.shuffle(texts)
            document, made = "", 0
            for text in texts:
                document += text + "\n"
                if len(document.encode()) >= DOCUMENT and made < PER_LANGUAGE:
                    out.write(json.dumps({"text": document, "language": language.name}, ensure_ascii=False) + "\n")
                    document, made = "", made + 1


if __name__ == "__main__":
    main()

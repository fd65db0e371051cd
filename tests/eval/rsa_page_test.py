#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree of tephra rsa in headless Chromium. Arguments: the tephra binary, the source folder, and a
folder for screenshots if they are wanted."""
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

TEPHRA, SOURCE = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SHOTS = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
del sys.argv[1:]
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests/support"))
import browser  # noqa: E402  (beside this file's folder)
import static_page  # noqa: E402

browser.require()

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\"> How many?"


class Tree(static_page.StaticPageTest):
    page, shots = "tree.html", SHOTS

    @classmethod
    def write(cls, folder):
        model = folder / "letters"
        subprocess.run([TEPHRA, "checkpoint", "random", "--quiet", "--config",
                        SOURCE / "tests/eval/config.json", "--out", model], check=True, timeout=60)
        shutil.copy(SOURCE / "tests/golden/tokenizer-byte-level/tokenizer.json", model)
        questions = [{"question": HOSTILE, "answer": 7}, {"question": "What is 2 + 3?", "answer": 5}]
        (folder / "q.jsonl").write_text("".join(json.dumps(q) + "\n" for q in questions))
        subprocess.run([TEPHRA, "rsa", "--quiet", "--model", model, "--questions", folder / "q.jsonl",
                        "--n", "16", "--beta", "48", "--tau", "24", "--kv-memory", "64MiB", "--out",
                        folder / "out"], check=True, timeout=120, stdout=subprocess.DEVNULL)
        cls.tree = json.loads((folder / "out/tree.json").read_text())
        return folder / "out"

    def test_shows_every_trace_and_its_kin(self):
        self.open(1100, 900)
        run = self.browser.run
        self.assertEqual(run("document.querySelectorAll('.trace').length"), 3 * 16)
        self.assertEqual(run("document.title"), "Markovian RSA")
        self.assertEqual(run("document.querySelector('.question').textContent"), HOSTILE)
        self.assertEqual(run("document.querySelectorAll('img').length"), 0)
        self.browser.click(".round:nth-of-type(2) .trace:nth-child(3)")
        parents = self.tree["questions"][0]["rounds"][1]["traces"][2]["parents"]
        kin = run("[...document.querySelectorAll('.round:nth-of-type(1) .trace')]"
                  ".flatMap((e, i) => e.classList.contains('kin') ? [i] : [])")
        self.assertEqual(kin, sorted(parents))
        self.assertEqual(run("document.querySelector('#detail pre').textContent"),
                         self.tree["questions"][0]["rounds"][1]["traces"][2]["text"])
        lines = run("document.querySelectorAll('#lines path').length")
        children = sum(2 in t["parents"] for t in self.tree["questions"][0]["rounds"][2]["traces"])
        self.assertEqual(lines, 4 + children)
        self.shoot("tree-light")
        self.browser.click("#after")
        self.assertEqual(run("document.querySelector('.question').textContent"), "What is 2 + 3?")
        run("1")
        self.assertEqual(self.browser.complaints, [])

    def test_fits_a_phone_in_the_dark(self):
        self.open(390, 780, phone=True, dark=True)
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 390)
        self.shoot("tree-phone-dark")
        self.browser.click(".round:nth-of-type(3) .trace:nth-child(1)")
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 390)
        self.browser.run("document.querySelector('#detail').scrollIntoView()")
        self.shoot("tree-phone-detail-dark")
        smallest = self.browser.run("Math.min(...[...document.querySelectorAll('.trace, nav button')]"
                                    ".map(e => e.getBoundingClientRect().height))")
        self.assertGreaterEqual(smallest, 40)
        self.assertEqual(self.browser.complaints, [])


unittest.main()

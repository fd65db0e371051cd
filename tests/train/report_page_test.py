#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of tephra report in headless Chromium. Arguments: the tephra binary, the source folder, and a
folder for screenshots if they are wanted."""
import json
import math
import pathlib
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

STEPS, LAYERS, EXPERTS = 900, 6, 8
HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"
PLOTS = ["Loss", "Learning rate", "Gradient norm", "Share of the gradient that clipping leaves",
         "Accuracy by kind and level, step 900", "Accuracy by kind of task, mean of its levels",
         "Entropy of the router's load, by layer",
         "Load of each expert in the last steps", "Tokens per second", "MFU", "Seconds of a step",
         "Memory in bytes"]


def line(step):
    """A step's line as a run writes it; the loss of step 300 is not finite."""
    row = {"step": step, "tokens": 4096 * step, "phase": "pretrain" if step <= 600 else HOSTILE,
           "context": 256, "batch_tokens": 4096,
           "loss": None if step == 300 else 5 * math.exp(-step / 200) + 0.3 + 0.1 * math.sin(step),
           "lr": 8e-3 * min(1, step / 30, (STEPS + 1 - step) / 300),
           "grad_norm": 1 + 0.5 * math.cos(3 * step), "clip_scale": 1.0, "skipped": step == 300,
           "entropy": [1 - math.exp(-step / (40 + 20 * l)) for l in range(LAYERS)]}
    if step % 50 == 0:
        row["load"] = [[(1 + 0.3 * math.sin(e + l)) / EXPERTS for e in range(EXPERTS)]
                       for l in range(LAYERS)]
    if step % 100 == 0:
        row["val_loss"] = 5 * math.exp(-step / 200) + 0.35
        row["eval"] = {kind: {"1": step / STEPS, "2": step / STEPS / 2}
                       for kind in ("addition", "counting", "sorting")}
    row["timing"] = {"seconds": 0.2, "wall": 0.21, "tokens_per_second": 20480.0 + step, "mfu_model": 0.5,
                     "mfu_6n": 0.3, "mfu_model_datasheet": 0.4, "mfu_6n_datasheet": 0.25,
                     "optimizer": 0.02, "data_wait": 1e-4, "checkpoint_pause": 0.0,
                     "memory_bytes": 3 << 28}
    return json.dumps(row) + "\n"


class Report(static_page.StaticPageTest):
    page, shots = "report.html", SHOTS

    @classmethod
    def write(cls, folder):
        (folder / "metrics.jsonl").write_text("".join(map(line, range(1, STEPS + 1))))
        subprocess.run([TEPHRA, "report", "--quiet", folder], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        return folder

    def plots(self):
        """Those that a run always has; numbers without a plot of their own follow."""
        all_plots = self.browser.run("[...document.querySelectorAll('.card h3')].map(e => e.textContent)")
        return all_plots[:len(PLOTS)]

    def test_draws_every_plot(self):
        self.open(1200, 2600)
        run = self.browser.run
        self.assertEqual(self.plots(), PLOTS)
        empty = run("[...document.querySelectorAll('.card svg')].filter(e => "
                    "!e.querySelector('path, image')).map(e => e.getAttribute('aria-label'))")
        self.assertEqual(empty, [])
        broken = run("[...document.querySelectorAll('svg *')].filter(e => [...e.attributes].some("
                     "a => /NaN|Infinity|undefined/.test(a.value))).length")
        self.assertEqual(broken, 0)
        self.assertIn("Loss", run("document.body.innerText"))
        self.assertEqual(run("document.querySelectorAll('img').length"), 0)
        self.assertNotEqual(run("document.title"), "owned")
        self.shoot("report-light")
        for button in run("[...document.querySelectorAll('#axis button')].map(e => e.textContent)"):
            run(f"[...document.querySelectorAll('#axis button')].find(e => e.textContent === '{button}').click()")
        run("document.querySelector('.head button').click()")
        run("1")
        self.assertEqual(self.browser.complaints, [])

    def test_fits_a_phone_in_the_dark(self):
        self.open(390, 844, phone=True, dark=True)
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 390)
        self.assertEqual(self.plots(), PLOTS)
        wide = self.browser.run("[...document.querySelectorAll('.card')].filter("
                                "e => e.getBoundingClientRect().right > 390).length")
        self.assertEqual(wide, 0)
        self.shoot("report-phone-dark")
        self.browser.run("document.querySelectorAll('.card')[4].scrollIntoView()")
        self.shoot("report-phone-router-dark")
        self.assertEqual(self.browser.complaints, [])


unittest.main()

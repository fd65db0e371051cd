# SPDX-License-Identifier: Apache-2.0
"""What the tests of a page that the program writes have in common: its folder served on this machine, a headless
Chromium that opens it, and screenshots where they are wanted."""
import functools
import http.server
import pathlib
import tempfile
import threading
import unittest

import browser


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class StaticPageTest(unittest.TestCase):
    """A test names its `page`, says where `shots` go (None: nowhere), and writes what it needs in `write`."""
    page = shots = None

    @classmethod
    def write(cls, folder):
        """Makes the page; returns the folder that it lies in."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        folder = cls.write(pathlib.Path(cls.scratch.name))
        handler = functools.partial(QuietHandler, directory=str(folder))
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.shutdown()
        cls.server.server_close()
        cls.scratch.cleanup()

    def open(self, width, height, **how):
        self.browser.screen(width, height, **how)
        self.browser.complaints.clear()
        self.browser.open(f"http://127.0.0.1:{self.server.server_port}/{self.page}")

    def shoot(self, name):
        if self.shots:
            self.shots.mkdir(parents=True, exist_ok=True)
            self.browser.shoot(self.shots / f"{name}.png")

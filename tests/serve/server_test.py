#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tephra serve as a process: what SIGTERM does to open streams, its keys, its port. Arguments: the
tephra binary, the source folder."""
import http.client
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TEPHRA, SOURCE = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
del sys.argv[1:]


class Stream(threading.Thread):
    """One streamed completion of so many tokens."""

    def __init__(self, port, tokens):
        super().__init__(daemon=True)
        self.port, self.tokens = port, tokens
        self.begun, self.text, self.status = threading.Event(), "", 0
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = json.dumps({"prompt": [5, 6, 7], "max_tokens": self.tokens, "ignore_eos": True,
                           "stream": True})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        self.status = answer.status
        try:
            while line := answer.readline():
                self.text += line.decode()
                if self.text.count("data: ") >= 3:
                    self.begun.set()
        except (http.client.IncompleteRead, ConnectionError):
            pass
        self.begun.set()
        connection.close()


class Server(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.model = pathlib.Path(cls.scratch.name) / "letters"
        subprocess.run([TEPHRA, "checkpoint", "random", "--quiet", "--config",
                        SOURCE / "tests/eval/config.json", "--out", cls.model], check=True, timeout=60)
        shutil.copy(SOURCE / "tests/golden/tokenizer-byte-level/tokenizer.json", cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def start(self, *flags):
        server = subprocess.Popen([TEPHRA, "serve", "--model", self.model, "--port", "0", "--threads", "2",
                                   "--kv-memory", "64MiB", *flags], stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.poll() is None and server.kill(), server.wait(),
                                 server.stderr.close()))
        for line in server.stderr:
            found = re.search(r"served at http://127.0.0.1:(\d+)/v1", line)
            if found:
                return server, int(found.group(1))
        return self.fail("it did not start")

    @staticmethod
    def ask(port, path, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def test_finishes_open_streams_after_sigterm(self):
        server, port = self.start("--drain-timeout", "60")
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        streams = [Stream(port, 1500) for _ in range(3)]
        for stream in streams:
            self.assertTrue(stream.begun.wait(30))
        server.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        with self.assertRaises(ConnectionError):
            kept.connect()
        for stream in streams:
            stream.join(60)
            self.assertEqual(stream.status, 200)
            self.assertTrue(stream.text.endswith("data: [DONE]\n\n"), stream.text[-200:])
        self.assertEqual(server.wait(30), 0)

    def test_ends_streams_that_take_too_long(self):
        server, port = self.start("--drain-timeout", "0")
        stream = Stream(port, 2000)
        self.assertTrue(stream.begun.wait(30))
        server.send_signal(signal.SIGTERM)
        stream.join(30)
        self.assertNotIn("[DONE]", stream.text)
        self.assertIn("the server stopped before the answer was whole", stream.text)
        self.assertEqual(server.wait(30), 0)

    def test_ends_answers_that_take_longer_than_a_request_may(self):
        _, port = self.start("--request-timeout", "1", "--sequences", "32")
        streams = [Stream(port, 2000) for _ in range(32)]  # seconds of work, side by side
        for stream in streams:
            stream.join(60)
        late = [s for s in streams if "the answer took longer than this server allows" in s.text]
        self.assertTrue(late)
        for stream in streams:
            self.assertEqual("[DONE]" in stream.text, stream not in late, stream.text[-200:])
        # Nobody goes on with them.
        for _ in range(100):
            figures = self.ask(port, "/metrics")[1].decode()
            if "\ntephra_requests_running 0\n" in figures:
                break
            time.sleep(0.05)
        self.assertIn("\ntephra_requests_running 0\n", figures)
        after = Stream(port, 3)
        after.join(30)
        self.assertIn("[DONE]", after.text)

    def test_a_second_signal_ends_it_at_once(self):
        server, port = self.start()
        self.assertTrue(Stream(port, 2000).begun.wait(30))
        server.send_signal(signal.SIGINT)
        time.sleep(0.2)
        server.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(10), 130)

    def test_asks_for_a_key_of_the_file(self):
        keys = pathlib.Path(self.scratch.name) / "keys"
        keys.write_text("# mine\nfirst-key\nsecond-key\n")
        _, port = self.start("--api-key-file", str(keys))
        self.assertEqual(self.ask(port, "/v1/models")[0], 401)
        self.assertEqual(self.ask(port, "/v1/models", {"Authorization": "Bearer wrong"})[0], 401)
        self.assertEqual(self.ask(port, "/v1/models", {"Authorization": "Bearer second-key"})[0], 200)
        self.assertEqual(self.ask(port, "/metrics")[0], 401)
        for open_to_all in ("/", "/health"):
            self.assertEqual(self.ask(port, open_to_all)[0], 200, open_to_all)

    def test_goes_by_local_names_and_those_it_is_given(self):
        _, port = self.start("--allow-host", "model.example")
        for host, status in (("localhost", 200), (f"127.0.0.1:{port}", 200), ("model.example", 200),
                             ("evil.example", 403)):
            self.assertEqual(self.ask(port, "/v1/models", {"Host": host})[0], status, host)
        keys = pathlib.Path(self.scratch.name) / "some-keys"
        keys.write_text("a-key\n")
        _, port = self.start("--api-key-file", str(keys))
        headers = {"Host": "proxy.example", "Authorization": "Bearer a-key"}
        self.assertEqual(self.ask(port, "/v1/models", headers)[0], 200, "a page does not know the key")

    def test_says_what_is_wrong_with_a_folder(self):
        folder = pathlib.Path(self.scratch.name) / "wrong"
        config = json.loads((SOURCE / "tests/eval/config.json").read_text())
        small = pathlib.Path(self.scratch.name) / "small.json"
        small.write_text(json.dumps({**config, "vocab_size": 300}))
        subprocess.run([TEPHRA, "checkpoint", "random", "--quiet", "--config", small, "--out", folder],
                       check=True, timeout=60)
        shutil.copy(SOURCE / "tests/golden/tokenizer-byte-level/tokenizer.json", folder)
        (folder / "generation_config.json").write_text('{"temperature": -3}')
        done = subprocess.run([TEPHRA, "serve", "--model", folder, "--port", "0"], capture_output=True,
                              text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"{folder}/generation_config.json: temperature: expected 0 or more", done.stderr)
        (folder / "generation_config.json").unlink()
        shutil.copy(SOURCE / "tests/golden/chat/zaya1.jinja", folder / "chat_template.jinja")
        done = subprocess.run([TEPHRA, "chat", "--model", folder], input="", capture_output=True, text=True,
                              timeout=30, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"tokenizer.json: its tokens have ids up to \d+, .* ids 0 to 299;")

    def test_says_that_keys_or_a_port_cannot_be_had(self):
        empty = pathlib.Path(self.scratch.name) / "none"
        empty.write_text("# no key\n")
        _, port = self.start()
        for flags, code, says in ((["--api-key-file", str(empty)], 3, "at least one key"),
                                  (["--api-key-file", "/nowhere/keys"], 2, "/nowhere/keys"),
                                  (["--allow-host", "a.example:80"], 2, "without a port"),
                                  (["--port", str(port)], 2, "Address already in use")):
            done = subprocess.run([TEPHRA, "serve", "--model", self.model, *flags], capture_output=True,
                                  text=True, timeout=30, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(says, done.stderr)


unittest.main()

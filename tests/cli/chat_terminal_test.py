#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tephra chat on a terminal: prompts, colours, Ctrl-C, Ctrl-D, pasted lines. Arguments: the tephra
binary, the source folder."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TEPHRA, SOURCE = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
del sys.argv[1:]


class Terminal:
    def __init__(self, model, *flags, **environment):
        self.child, self.end = pty.fork()
        if self.child == 0:
            os.environ.update({"TERM": "xterm", "NO_COLOR": "", **environment})
            os.execv(TEPHRA, [str(TEPHRA), "chat", "--model", str(model), *flags])
        self.seen = ""

    def expect(self, pattern, seconds=60):
        """Waits for the pattern and returns all that came up to its end."""
        until = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            if time.monotonic() > until or not self.read(1):
                raise AssertionError(f"expected {pattern!r}, got {self.seen!r}")
        text, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return text

    def read(self, seconds):
        if not select.select([self.end], [], [], seconds)[0]:
            return True
        try:
            piece = os.read(self.end, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += piece.decode(errors="replace")
        return bool(piece)

    def send(self, text):
        os.write(self.end, text.encode())

    def code(self):
        while self.read(1):
            pass
        status = os.waitpid(self.child, 0)[1]
        os.close(self.end)
        return os.waitstatus_to_exitcode(status)


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.model = pathlib.Path(cls.scratch.name) / "letters"
        subprocess.run([TEPHRA, "checkpoint", "random", "--quiet", "--config",
                        SOURCE / "tests/eval/config.json", "--out", cls.model], check=True, timeout=60)
        shutil.copy(SOURCE / "tests/golden/tokenizer-byte-level/tokenizer.json", cls.model)
        shutil.copy(SOURCE / "tests/golden/chat/zaya1.jinja", cls.model / "chat_template.jinja")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_greets_dims_thoughts_and_ends_with_ctrl_d(self):
        chat = Terminal(self.model, "--max-tokens", "10", "--seed", "1")
        chat.expect("letters, with room for 2,048 tokens.*\n")
        chat.expect("> ")
        chat.send("Hello\n")
        answer = chat.expect(r"\[10 tokens, [\d.]+ tokens/s, prompt \d+; as long as allowed\]")
        self.assertIn("\x1b[2m", answer)
        self.assertIn("\x1b[0m", answer)
        chat.expect("> ")
        chat.send("\x04")
        self.assertEqual(chat.code(), 0)

    def test_obeys_no_color(self):
        chat = Terminal(self.model, "--max-tokens", "10", "--seed", "1", NO_COLOR="1")
        chat.expect("> ")
        chat.send("Hello\n")
        answer = chat.expect(r"as long as allowed\]")
        self.assertNotRegex(answer, "\x1b\\[[0-9;]*m")
        self.assertIn("(thinking) ", answer)
        chat.send("/quit\n")
        self.assertEqual(chat.code(), 0)

    def test_ctrl_c_stops_the_answer_and_twice_the_program(self):
        for seed in range(1, 30):  # an answer may end before the key arrives
            chat = Terminal(self.model, "--seed", str(seed))
            chat.expect("> ")
            chat.send("Hello\n")
            chat.expect("\x1b\\[2m.{4}(?s:.)")
            chat.send("\x03")
            if "stopped" in chat.expect(r"\[stopped\]|once more or Ctrl-D"):
                break
            chat.send("\x04")
            self.assertEqual(chat.code(), 0)
        chat.expect("> ")
        chat.send("/set max_tokens 3\n")
        chat.expect("max_tokens 3")
        chat.send("Again\n")
        chat.expect(r"\[3 tokens")
        chat.expect("> ")
        chat.send("\x03")
        chat.expect("Ctrl-C once more or Ctrl-D ends")
        chat.send("\x03")
        self.assertEqual(chat.code(), 130)

    def test_ctrl_c_at_the_prompt_is_forgotten_by_the_next_message(self):
        chat = Terminal(self.model, "--max-tokens", "3", "--seed", "1")
        for _ in range(2):
            chat.expect("> ")
            chat.send("\x03")
            chat.expect("Ctrl-C once more")
            chat.expect("> ")
            chat.send("Hello\n")
            chat.expect(r"\[3 tokens")
        chat.expect("> ")
        chat.send("\x04")
        self.assertEqual(chat.code(), 0)

    def test_lines_are_edited_and_come_back(self):
        chat = Terminal(self.model, "--max-tokens", "3", "--seed", "1")
        file = pathlib.Path(self.scratch.name) / "edited.jsonl"
        chat.expect("> ")
        chat.send("wrld\x1b[D\x1b[D\x1b[Do\x01hello \n")  # left, left, left, o; to the beginning
        chat.expect(r"\[3 tokens")
        chat.expect("> ")
        chat.send("\x1b[A\x7f\x7f\n")
        chat.expect(r"\[3 tokens")
        chat.expect("> ")
        chat.send("\x1b[200~two\nlines\x1b[201~")
        time.sleep(0.1)
        chat.send("\n")
        chat.expect(r"\[3 tokens")
        chat.expect("> ")
        chat.send(f"/save {file}\n")
        chat.expect("saved 6 messages")
        said = [m["content"] for m in json.loads(file.read_text())["messages"] if m["role"] == "user"]
        self.assertEqual(said, ["hello world", "hello wor", "two\nlines"])
        chat.expect("> ")
        chat.send("\x04")
        self.assertEqual(chat.code(), 0)

    def test_a_dumb_terminal_keeps_its_own_lines(self):
        chat = Terminal(self.model, "--max-tokens", "3", "--seed", "1", TERM="dumb")
        chat.expect("> ")
        chat.send("Hello\n")
        self.assertNotIn("\x1b", chat.expect(r"\[3 tokens"))
        chat.send("\x04")
        self.assertEqual(chat.code(), 0)

    def test_pasted_lines_are_one_message(self):
        chat = Terminal(self.model, "--max-tokens", "3", "--seed", "1")
        chat.expect("> ")
        chat.send("one\ntwo\nthree\n")
        chat.expect(r"\[3 tokens")
        file = pathlib.Path(self.scratch.name) / "paste.jsonl"
        chat.expect("> ")
        chat.send(f"/save {file}\n")
        chat.expect("saved 2 messages")
        self.assertIn(r'"one\ntwo\nthree"', file.read_text())
        chat.send("\x04")
        self.assertEqual(chat.code(), 0)


unittest.main()

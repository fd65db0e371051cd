#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chat page in headless Chromium: first as the binary serves it, with a random model behind it;
then with a scripted server in the model's place, which says what a model would not say on demand.
Arguments: the tephra binary, the source folder, and a folder for screenshots if they are wanted."""
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

TEPHRA, SOURCE = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SHOTS = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
del sys.argv[1:]
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests/support"))
import browser as chromium  # noqa: E402  (beside this file's folder)

chromium.require()

ANSWER = """Here is **what** to do, with `code` and *care*:

1. Mix the *ash* with water
   - slowly
   - in a bowl
2. Wait

```python
def ash(grams):
    return "<b>" * grams  # not HTML
```

> Said by somebody.

| what | how much |
|---|---:|
| ash | 3 |

<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>
[good](https://example.org/a) [bad](javascript:alert(1)) and https://example.org/b."""
THOUGHTS = "The person asks about ash.\nI know about ash."


class Scripted:
    """Answers chats by `script`, a list of functions (handler, body), one for each request."""

    def __init__(self, page, policy):
        self.script, self.bodies, self.keys, self.left = [], [], [], threading.Event()
        self.indexes, self.memories, self.rsa = [], None, 0  # None: this server keeps no memories
        scripted = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                if self.path == "/v1/models":
                    self.json({"data": [{"id": "scripted-8B", "context_length": 4096,
                                         "rsa_tokens": scripted.rsa}]})
                elif self.path == "/v1/indexes":
                    self.json({"data": [{"id": name} for name in scripted.indexes]})
                elif self.path == "/v1/memories":
                    self.json({"enabled": scripted.memories is not None,
                               "data": [{"id": name} for name in scripted.memories or []]})
                elif self.path == "/":
                    self.send(200, "text/html; charset=utf-8", page, [("Content-Security-Policy", policy)])
                else:
                    self.send(404, "text/plain", b"")

            def json(self, value):
                self.send(200, "application/json", json.dumps(value).encode())

            def send(self, status, kind, body, headers=()):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def refuse(self, status, message, headers=()):
                self.send(status, "application/json",
                          json.dumps({"error": {"message": message}}).encode(), headers)

            def begin(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True

            def event(self, delta, finish=None, **more):
                choice = {"index": 0, "delta": delta, "finish_reason": finish}
                self.wfile.write(b"data: %s\n\n" % json.dumps({"choices": [choice], **more}).encode())
                self.wfile.flush()

            def conclude(self, finish="stop", tokens=20):
                self.event({}, finish)
                usage = {"prompt_tokens": 300, "completion_tokens": tokens,
                         "prompt_tokens_details": {"cached_tokens": 256}}
                self.wfile.write(b"data: %s\n\n" % json.dumps({"choices": [], "usage": usage}).encode())
                self.wfile.write(b"data: [DONE]\n\n")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                scripted.bodies.append(body)
                scripted.keys.append(self.headers.get("Authorization"))
                try:
                    scripted.script.pop(0)(self, body)
                except (BrokenPipeError, ConnectionResetError):
                    scripted.left.set()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # browsers hang up as they like
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


def says(content, thoughts="", finish="stop", step=7):
    def act(handler, _):
        handler.begin()
        handler.event({"role": "assistant", "content": ""})
        for i in range(0, len(thoughts), step):
            handler.event({"reasoning_content": thoughts[i:i + step]})
            time.sleep(0.002)
        for i in range(0, len(content), step):
            handler.event({"content": content[i:i + step]})
        handler.conclude(finish)
    return act


RETRIEVAL = {"index": "handbook", "question": "How?", "tokens": 40, "passages": [
    {"document": "ash.md", "text": "Ash keeps for a year.", "score": 0.9},
    {"document": "<b>rain.md</b>", "text": "Rain turns ash to mud.", "score": 0.5}]}
MEMORY = {"name": "talks", "found": 5, "used": 3, "tokens": 30, "chain": [],
          "explanation": ["turns of 2024-05-03", "said by user"]}
RSA = {"n": 16, "c": 4, "rounds": 2, "beta": 64, "tau": 32, "answer": "42",
       "votes": [{"answer": "42", "traces": 11}, {"answer": "<i>41</i>", "traces": 4}]}


attempts_were_seen = threading.Event()


def says_from_sources(handler, _):
    handler.begin()
    handler.event({"role": "assistant", "content": ""}, retrieval=RETRIEVAL, memory=MEMORY)
    for attempt in range(1, 17):
        handler.event({"reasoning_content": f"Round 0, trace {attempt}: 42 (60 tokens)\n"})
    attempts_were_seen.wait(60)
    handler.event({"content": "It is 42."})
    handler.event({}, "stop", rsa=RSA)
    handler.wfile.write(b"data: [DONE]\n\n")


def never_ends(handler, _):
    handler.begin()
    while True:
        handler.event({"content": "and on "})
        time.sleep(0.01)


def breaks_off(handler, _):
    handler.begin()
    handler.event({"content": "Half of"})


def refuses(status, message, **headers):
    return lambda handler, _: handler.refuse(status, message, headers.items())


LAST = "[...document.querySelectorAll('.turn.assistant')].pop()"
IDLE = "document.querySelector('#send').textContent === 'Send'"


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        model = pathlib.Path(cls.scratch.name) / "letters"
        subprocess.run([TEPHRA, "checkpoint", "random", "--quiet", "--config",
                        SOURCE / "tests/eval/config.json", "--out", model], check=True, timeout=60)
        shutil.copy(SOURCE / "tests/golden/tokenizer-byte-level/tokenizer.json", model)
        shutil.copy(SOURCE / "tests/golden/chat/zaya1.jinja", model / "chat_template.jinja")
        cls.server = subprocess.Popen([TEPHRA, "serve", "--model", model, "--port", "0", "--threads", "2",
                                       "--kv-memory", "64MiB", "--memory-dir",
                                       pathlib.Path(cls.scratch.name) / "memories"],
                                      stderr=subprocess.PIPE, text=True)
        for line in cls.server.stderr:
            found = re.search(r"chat page is at (http://\S+/)", line)
            if found:
                cls.url = found.group(1)
                break
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(cls.url) as answer:
            page, cls.policy = answer.read(), answer.headers["Content-Security-Policy"]
        cls.scripted = Scripted(page, cls.policy)
        cls.browser = chromium.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.terminate()
        cls.server.stderr.read()
        cls.server.wait(30)
        cls.scratch.cleanup()

    def setUp(self):
        self.scripted.indexes, self.scripted.memories, self.scripted.rsa = [], None, 0
        self.browser.screen(1200, 800)
        self.open(self.scripted.url)
        self.run_script("localStorage.clear()")
        self.open(self.scripted.url)
        self.scripted.script.clear()
        self.scripted.bodies.clear()
        self.browser.complaints.clear()

    def open(self, url):
        self.browser.open(url)
        self.browser.wait("document.querySelector('#model').textContent !== 'Tephra'")

    def run_script(self, script):
        return self.browser.run(script)

    def shoot(self, name):
        if SHOTS:
            SHOTS.mkdir(parents=True, exist_ok=True)
            self.browser.shoot(SHOTS / f"{name}.png")

    def ask(self, text, *script):
        self.scripted.script.extend(script)
        self.run_script("document.querySelector('#text').focus()")
        self.browser.type(text)
        self.browser.key("Enter")

    def finished(self):
        self.browser.wait(IDLE)

    def said(self):
        return self.run_script(f"{LAST}.querySelector('.said').innerText")

    def no_complaints(self):
        self.run_script("1")  # what was on its way has come
        self.assertEqual(self.browser.complaints, [])

    def test_talks_to_the_real_server(self):
        self.open(self.url)
        self.assertEqual(self.run_script("document.querySelector('#model').textContent"), "letters")
        self.run_script("settings = {max_tokens: 40, seed: 3}; document.querySelector('#text').focus()")
        self.browser.type("Hello")
        self.browser.key("Enter")
        self.browser.wait(f"{LAST} && {IDLE}")
        stats = self.run_script(f"{LAST}.querySelector('.tools').innerText")
        self.assertRegex(stats, r"\d+ tokens")
        self.assertRegex(stats, r"prompt \d+")
        self.assertIn("default-src 'none'", self.policy)
        self.assertNotIn("unsafe", self.policy)
        self.no_complaints()

    def test_the_real_server_answers_from_documents_memory_and_many_attempts(self):
        sent = {"name": "notes", "documents": [{"name": "ash.txt", "text": "Ash falls on the garden. It rains."}]}
        request = urllib.request.Request(self.url + "v1/indexes", json.dumps(sent).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            self.assertEqual(answer.status, 201)
        self.open(self.url)
        self.browser.wait("offered.rsa && offered.memory && offered.indexes.includes('notes')")
        self.run_script("settings = {max_tokens: 24, seed: 3, rsa: '8', index: 'notes', memory: '*'};"
                        " document.querySelector('#text').focus()")
        self.browser.type("Where does ash fall?")
        self.browser.key("Enter")
        self.browser.wait(f"{LAST} && {IDLE}")
        titles = self.run_script(f"[...{LAST}.querySelectorAll('.used summary')].map(e => e.innerText)")
        self.assertEqual(len(titles), 3, self.run_script("document.body.innerText"))
        self.assertRegex(titles[0], r"^\d passages? of notes$")
        self.assertEqual(titles[1], "Memory: nothing earlier was asked for")
        self.assertRegex(titles[2], r"^(\d of 8 attempts agree, after 2 rounds of aggregation|None of 8)")
        self.assertIn("Round 2, trace 8", self.run_script(f"{LAST}.querySelector('details div').textContent"))
        self.no_complaints()

    def test_shows_an_answer_safely(self):
        self.ask("How?", says(ANSWER, THOUGHTS))
        self.finished()
        count = lambda what: self.run_script(f"{LAST}.querySelectorAll({json.dumps(what)}).length")
        self.assertEqual(count(".said > ol > li"), 2)
        self.assertEqual(count(".said ol ul li"), 2)
        self.assertEqual(count(".said strong"), 1)
        self.assertEqual(count(".said em"), 2)
        self.assertEqual(count(".said td"), 2)
        self.assertEqual(count(".said td.right"), 1)
        self.assertEqual(count(".said blockquote"), 1)
        self.assertEqual(count("img, script, b, iframe"), 0)
        self.assertIn('return "<b>" * grams', self.run_script(f"{LAST}.querySelector('pre').innerText"))
        self.assertEqual(self.run_script(f"[...{LAST}.querySelectorAll('a')].map(a => a.href)"),
                         ["https://example.org/a", "https://example.org/b"])
        self.assertIn("<img src=x", self.said())
        self.assertFalse(self.run_script(f"{LAST}.querySelector('details').open"))
        self.assertIn("Thought for", self.run_script(f"{LAST}.querySelector('summary').innerText"))
        self.assertEqual(self.run_script(f"{LAST}.querySelector('details div').textContent"), THOUGHTS)
        tools = self.run_script(f"{LAST}.querySelector('.tools').innerText")
        self.assertRegex(tools, r"20 tokens · [\d.]+ tokens/s · first after [\d.]+ s · prompt 300 \(256 cached\)")
        self.assertEqual(self.run_script("document.title"), "How? · Tephra")
        self.shoot("desktop-light")
        self.browser.screen(1200, 800, dark=True)
        self.shoot("desktop-dark")
        self.no_complaints()

    def test_fits_a_phone(self):
        self.browser.screen(390, 780, phone=True)
        self.ask("How?", says(ANSWER, THOUGHTS))
        self.run_script("document.querySelector('#send').click()")  # there Enter is a new line
        self.finished()
        self.assertLessEqual(self.run_script("document.documentElement.scrollWidth"), 390)
        visible = "getComputedStyle(document.querySelector('#side')).visibility"
        self.assertEqual(self.run_script(visible), "hidden")
        self.run_script("document.querySelector('#log').scrollTop = 0")
        self.shoot("phone-light")
        self.browser.screen(390, 780, phone=True, dark=True)
        self.shoot("phone-dark")
        self.browser.click("#menu")
        self.assertEqual(self.run_script(visible), "visible")
        self.shoot("phone-list-dark")
        self.browser.key("Escape")
        self.assertEqual(self.run_script(visible), "hidden")
        self.browser.click("#settings")
        self.assertLessEqual(self.run_script("document.querySelector('#panel').getBoundingClientRect().right"), 390)
        self.shoot("phone-settings-dark")
        smallest = self.run_script("Math.min(...['#menu', '#send', '#settings', '#theme'].map(s => "
                                   "document.querySelector(s).getBoundingClientRect().height))")
        self.assertGreaterEqual(smallest, 40)
        self.no_complaints()

    def test_stops_by_button_and_by_escape(self):
        for stop in (lambda: self.browser.click("#send"), lambda: self.browser.key("Escape")):
            self.scripted.left.clear()
            self.ask("Go on", never_ends)
            self.browser.wait(f"{LAST} && {LAST}.querySelector('.said').innerText.includes('and on and on')")
            self.assertEqual(self.run_script("document.querySelector('#send').textContent"), "Stop")
            stop()
            self.finished()
            self.assertTrue(self.scripted.left.wait(10), "the server noticed")
            self.assertIn("stopped", self.run_script(f"{LAST}.querySelector('.tools').innerText"))
        self.no_complaints()

    def test_waits_for_a_busy_server(self):
        self.ask("Hi", refuses(429, "too many", **{"Retry-After": "1"}), says("Now."))
        self.browser.wait(f"{LAST} && {LAST}.innerText.includes('trying again in 1 s')")
        self.browser.wait(f"{LAST}.querySelector('.said').innerText === 'Now.'")
        self.finished()

    def test_shows_errors_and_tries_again(self):
        for act, text in ((refuses(500, "it broke"), "it broke (500)"),
                          (refuses(400, "too long"), "too long (400)"),
                          (breaks_off, "The connection was lost before the answer was whole")):
            self.ask("Hi", act, says("All is well."))
            self.finished()
            self.assertIn(text, self.run_script(f"{LAST}.querySelector('.problem').innerText"))
            if act is breaks_off:
                self.assertEqual(self.said(), "Half of")
                self.shoot("desktop-error")
            self.browser.click(".problem button")
            self.browser.wait(f"{IDLE} && {LAST}.querySelector('.said').innerText === 'All is well.'")
            self.assertEqual(self.run_script("document.querySelectorAll('.problem').length"), 0)
            roles = [m["role"] for m in self.scripted.bodies[-1]["messages"]]
            self.assertEqual(roles[-1], "user")

    def test_goes_on_with_a_cut_answer(self):
        self.ask("Hi", says("One, two", finish="length"), says(", three."))
        self.finished()
        self.run_script(f"[...{LAST}.querySelectorAll('button')].find(b => b.innerText === 'Continue').click()")
        self.browser.wait(f"{IDLE} && {LAST}.querySelector('.said').innerText === 'One, two, three.'")
        self.assertTrue(self.scripted.bodies[-1]["continue_final_message"])
        self.assertEqual(self.scripted.bodies[-1]["messages"][-1], {"role": "assistant", "content": "One, two"})

    def test_asks_for_a_key(self):
        self.ask("Hi", refuses(401, "a key"), says("Welcome."))
        self.browser.wait("document.querySelector('#ask-key').open")
        self.run_script("document.querySelector('#key').focus()")
        self.browser.type("secret")
        self.browser.key("Enter")
        self.browser.wait("Store.read('tephra.key') === 'secret'")
        self.browser.click(".problem button")
        self.browser.wait(f"{LAST}.querySelector('.said').innerText === 'Welcome.'")
        self.assertEqual(self.scripted.keys[-1], "Bearer secret")

    def test_sends_the_settings(self):
        self.browser.click("#settings")
        for name, value in (("system", "Be brief."), ("temperature", "0.25"), ("top_p", "0.5"),
                            ("max_tokens", "77"), ("seed", "42")):
            self.run_script(f"document.querySelector('#set-{name}').focus()")
            self.browser.type(value)
        self.run_script("document.querySelector('#set-thinking').value = 'off'")
        self.shoot("desktop-settings")
        self.run_script("document.querySelector('#panel button[value=ok]').click()")
        self.browser.wait("settings.seed === '42' || settings.seed === 42")
        self.ask("Hi", says("Yes."))
        self.finished()
        body = self.scripted.bodies[-1]
        self.assertEqual(body["messages"], [{"role": "system", "content": "Be brief."},
                                            {"role": "user", "content": "Hi"}])
        for name, value in (("temperature", 0.25), ("top_p", 0.5), ("max_tokens", 77), ("seed", 42),
                            ("chat_template_kwargs", {"enable_thinking": False}), ("stream", True)):
            self.assertEqual(body[name], value)
        self.open(self.scripted.url)
        self.browser.click("#settings")
        self.assertEqual(self.run_script("document.querySelector('#set-seed').value"), "42")
        self.run_script("document.querySelector('#panel button[value=reset]').click()")
        self.browser.wait("Object.keys(settings).length === 0")
        self.ask("Again", says("Yes."))
        self.finished()
        self.assertEqual(set(self.scripted.bodies[-1]), {"messages", "stream", "stream_options"})

    def choose(self, name, value):
        self.run_script(f"document.querySelector('#set-{name}').value = {json.dumps(value)}")

    def hidden(self, name):
        return self.run_script(f"document.querySelector('#set-{name}').closest('label').hidden")

    def test_shows_only_what_the_server_offers(self):
        self.browser.click("#settings")
        for name in ("rsa", "index", "memory"):
            self.assertTrue(self.hidden(name), name)
        self.run_script("document.querySelector('#panel button[value=ok]').click()")
        # One that comes later is there when the settings are opened again.
        self.scripted.indexes = ["handbook"]
        self.browser.click("#settings")
        self.browser.wait("!document.querySelector('#set-index').closest('label').hidden")
        self.assertTrue(self.hidden("memory"))
        self.run_script("document.querySelector('#panel button[value=ok]').click()")
        self.no_complaints()

    def test_answers_from_documents_memory_and_many_attempts(self):
        self.scripted.indexes, self.scripted.memories, self.scripted.rsa = ["handbook", "x"], ["talks"], 1 << 20
        self.open(self.scripted.url)
        self.browser.wait("offered.indexes.length === 2 && offered.memory")
        self.browser.click("#settings")
        for name in ("rsa", "index", "memory"):
            self.assertFalse(self.hidden(name), name)
        self.choose("rsa", "16")
        self.choose("index", "handbook")
        self.choose("memory", "talks")
        self.shoot("desktop-sources-settings")
        self.run_script("document.querySelector('#panel button[value=ok]').click()")
        self.browser.wait("settings.memory === 'talks'")
        self.ask("How?", says_from_sources, says("Yes."), says("Again."))
        self.browser.wait(f"{LAST} && {LAST}.querySelector('summary')?.innerText.includes('Round 0, trace 16')")
        attempts_were_seen.set()
        self.finished()
        body = self.scripted.bodies[-1]
        self.assertEqual((body["rsa"], body["retrieve"], body["memory"]),
                         ({"n": 16}, {"index": "handbook"}, "talks"))
        titles = self.run_script(f"[...{LAST}.querySelectorAll('.used summary')].map(e => e.innerText)")
        self.assertEqual(titles, ["2 passages of handbook", "Memory: 3 of 5 turns found were used",
                                  "11 of 16 attempts agree, after 2 rounds of aggregation"])
        self.run_script(f"{LAST}.querySelectorAll('.used').forEach(e => e.open = true)")
        used = self.run_script(f"[...{LAST}.querySelectorAll('.used li')].map(e => e.textContent)")
        self.assertEqual(used[0], "ash.md\nAsh keeps for a year.")
        self.assertEqual(used[1], "<b>rain.md</b>\nRain turns ash to mud.")
        self.assertEqual(used[3], "said by user")
        self.assertEqual(used[5], "<i>41</i>  4 attempts")
        self.shoot("desktop-sources")
        self.browser.screen(390, 780, phone=True, dark=True)
        self.assertLessEqual(self.run_script("document.documentElement.scrollWidth"), 390)
        self.shoot("phone-sources-dark")
        self.browser.screen(1200, 800)
        # The memory of the conversation itself, and an index that is gone, which is not asked for.
        self.scripted.indexes = ["x"]
        self.browser.click("#settings")
        self.browser.wait("offered.indexes.length === 1")
        self.choose("memory", "*")
        self.run_script("document.querySelector('#panel button[value=ok]').click()")
        self.browser.wait("settings.memory === '*'")
        self.ask("And now?")
        self.finished()
        body = self.scripted.bodies[-1]
        self.assertRegex(body["memory"], r"^chat-[a-z0-9]{1,40}$")
        self.assertNotIn("retrieve", body)
        self.no_complaints()
        # What an answer was made from is kept with it.
        self.open(self.scripted.url)
        self.assertEqual(self.run_script("document.querySelectorAll('.used').length"), 3)

    def test_keeps_conversations(self):
        self.ask("First talk", says("One."))
        self.finished()
        self.browser.click("#new")
        self.ask("Second talk", says("Two."))
        self.finished()
        self.open(self.scripted.url)
        self.assertEqual(self.said(), "Two.")
        titles = "[...document.querySelectorAll('#list .open')].map(e => e.textContent)"
        self.assertEqual(self.run_script(titles), ["Second talk", "First talk"])
        self.run_script("[...document.querySelectorAll('#list .open')][1].click()")
        self.assertEqual(self.said(), "One.")
        self.ask("And then?", says("Three."))
        self.finished()
        self.assertEqual([m["content"] for m in self.scripted.bodies[-1]["messages"]],
                         ["First talk", "One.", "And then?"])
        self.run_script("window.confirm = () => true; document.querySelector('#list .drop').click()")
        self.assertEqual(self.run_script(titles), ["Second talk"])

    def test_new_lines_retry_and_edit(self):
        self.scripted.script.append(says("Once."))
        self.run_script("document.querySelector('#text').focus()")
        self.browser.type("one")
        self.browser.key("Enter", shift=True)
        self.browser.type("two")
        self.assertEqual(self.scripted.bodies, [])
        self.browser.key("Enter")
        self.finished()
        self.browser.wait(f"{LAST} && {LAST}.querySelector('.said').innerText === 'Once.'")
        self.assertEqual(self.scripted.bodies[0]["messages"][0]["content"], "one\ntwo")
        self.scripted.script.append(says("Twice."))
        self.run_script(f"[...{LAST}.querySelectorAll('button')].find(b => b.innerText === 'Retry').click()")
        self.browser.wait(f"{IDLE} && {LAST}.querySelector('.said').innerText === 'Twice.'")
        self.assertEqual(len(self.scripted.bodies[-1]["messages"]), 1)
        self.browser.click("#text")
        self.browser.key("ArrowUp")
        self.assertEqual(self.run_script("document.querySelector('#text').value"), "one\ntwo")
        self.assertEqual(self.run_script("document.querySelectorAll('.turn').length"), 0)

    def test_switches_the_theme(self):
        back = "getComputedStyle(document.body).backgroundColor"
        light = self.run_script(back)
        self.browser.screen(1200, 800, dark=True)
        dark = self.run_script(back)
        self.assertNotEqual(light, dark, "as the system says")
        self.browser.click("#theme")
        self.assertEqual(self.run_script(back), light)
        self.open(self.scripted.url)
        self.assertEqual(self.run_script(back), light, "remembered")
        self.browser.click("#theme")
        self.browser.screen(1200, 800)
        self.assertEqual(self.run_script(back), dark)


unittest.main()

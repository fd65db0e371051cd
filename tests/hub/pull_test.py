#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tephra pull against hubs that misbehave: connections that break, wrong bytes, refusals, redirects,
hostile names, and a pull that is killed. Argument: the tephra binary."""
import hashlib
import http.server
import json
import os
import pathlib
import random
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TEPHRA = str(pathlib.Path(sys.argv.pop(1)).resolve())
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BIG = random.Random(1).randbytes(3_000_000)
SMALL = {"config.json": b'{"model_type": "x"}\n', "sub dir/notes #1.txt": b"notes\n", "empty": b""}


def git_blob(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


# What has come of model.safetensors: by its content and its name.
PART = f"{hashlib.sha256(BIG).hexdigest()}-{hashlib.sha256(b'model.safetensors').hexdigest()[:16]}.part"


class Hub:
    """A hub on a port of its own. `act(handler, name, number)` may answer in its own way the number-th
    request for a file and return True."""

    def __init__(self, files=None, act=None, listing=None):
        self.files = {**SMALL, "model.safetensors": BIG} if files is None else files
        self.act, self.listing = act, listing
        self.requests, self.lock, self.blobs = [], threading.Lock(), True
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                hub.answer(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def siblings(self):
        for name, content in self.files.items():
            entry = {"rfilename": name}
            if self.blobs:
                entry |= {"size": len(content), "blobId": git_blob(content)}
                if len(content) > 1000:
                    entry |= {"blobId": git_blob(b"pointer"), "lfs": {
                        "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}}
            yield entry

    def answer(self, handler):
        path = handler.path
        with self.lock:
            self.requests.append((path, dict(handler.headers)))
            number = sum(1 for each, _ in self.requests if each == path)
        if self.act and self.act(handler, path, number):
            return
        if path.startswith("/api/models/owner/name/revision/"):
            body = self.listing or json.dumps({"sha": COMMIT, "siblings": list(self.siblings())})
            self.send(handler, 200, body.encode())
            return
        found = re.match(rf"/owner/name/resolve/{COMMIT}/(.*)", path)
        name = found and found.group(1).replace("%20", " ").replace("%23", "#")
        if name not in self.files:
            self.send(handler, 404, b'{"error": "Entry not found"}')
            return
        self.send_file(handler, self.files[name])

    def send_file(self, handler, content, **headers):
        first = re.match(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        if first:
            at = int(first.group(1))
            headers["Content-Range"] = f"bytes {at}-{len(content) - 1}/{len(content)}"
            self.send(handler, 206, content[at:], **headers)
        else:
            self.send(handler, 200, content, **headers)

    @staticmethod
    def send(handler, status, body, length=None, **headers):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)
        if length is not None:  # a promise that is not kept
            handler.wfile.flush()
            handler.close_connection = True


class Pull(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.out = pathlib.Path(self.scratch.name) / "out"

    def hub(self, **options):
        hub = Hub(**options)
        self.addCleanup(hub.close)
        return hub

    def command(self, *flags):
        return [TEPHRA, "pull", "owner/name", "--out", str(self.out), "--retry-wait", "0.01", *flags]

    def pull(self, hub, *flags, code=0, token=""):
        done = subprocess.run(self.command(*flags), capture_output=True, text=True, timeout=60,
                              check=False, env=self.environment(hub, token))
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    @staticmethod
    def environment(hub, token=""):
        return {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": token, "NO_PROXY": "*"}

    def check_files(self, hub):
        for name, content in hub.files.items():
            self.assertEqual((self.out / name).read_bytes(), content, name)
        self.assertFalse((self.out / ".tephra-pull").exists())

    def test_pulls_checks_and_does_nothing_the_second_time(self):
        hub = self.hub()
        done = self.pull(hub)
        self.check_files(hub)
        self.assertIn("4 files pulled, 0 were there", done.stdout)
        self.assertIn(COMMIT, done.stdout)
        before = len(hub.requests)
        self.assertIn("0 files pulled, 4 were there", self.pull(hub).stdout)
        self.assertEqual(len(hub.requests), before + 1, "the listing alone")
        (self.out / "config.json").write_bytes(b'{"model_type": "y"}\n')  # same size
        self.assertIn("1 files pulled, 3 were there", self.pull(hub).stdout)
        self.check_files(hub)

    def test_says_what_it_did_as_json_and_lists_without_pulling(self):
        hub = self.hub()
        done = json.loads(self.pull(hub, "--json", "--quiet").stdout)
        self.assertEqual(done["commit"], COMMIT)
        self.assertEqual([f["name"] for f in done["files"]], sorted(hub.files))
        self.assertTrue(all(f["hash_checked"] for f in done["files"]))
        self.assertEqual(done["pulled_bytes"], sum(map(len, hub.files.values())))
        self.out = self.out.with_name("other")
        listed = self.pull(hub, "--list").stdout
        self.assertIn("model.safetensors", listed)
        self.assertFalse(self.out.exists())

    def test_chooses_files(self):
        hub = self.hub()
        self.pull(hub, "--exclude", "*.safetensors", "--exclude", "sub dir/**")
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["config.json", "empty"])
        done = self.pull(hub, "--include", "*.gguf", code=2)
        self.assertIn("no file is left", done.stderr)

    def test_goes_on_where_a_connection_broke(self):
        def act(handler, path, number):
            if not path.endswith("model.safetensors") or number > 3:
                return False
            first = int(re.match(r"bytes=(\d+)-", handler.headers.get("Range", "bytes=0-")).group(1))
            part = BIG[first:first + 400_000]
            extra = {"Content_Range": f"bytes {first}-{len(BIG) - 1}/{len(BIG)}"} if first else {}
            Hub.send(handler, 206 if first else 200, part, length=len(BIG) - first, **extra)
            return True

        hub = self.hub(act=act)
        self.pull(hub)
        self.check_files(hub)
        ranges = [h.get("Range") for p, h in hub.requests if p.endswith("model.safetensors")]
        self.assertEqual(ranges, [None, "bytes=400000-", "bytes=800000-", "bytes=1200000-"])

    def test_takes_a_file_anew_when_its_bytes_are_wrong_once(self):
        def act(handler, path, number):
            if path.endswith("model.safetensors") and number == 1:
                Hub.send(handler, 200, b"x" + BIG[1:])
                return True
            return False

        hub = self.hub(act=act)
        self.assertIn("not what the hub's hash says", self.pull(hub).stderr)
        self.check_files(hub)

    def test_pulls_files_of_one_content_side_by_side(self):
        for content in (b"", b"the same\n" * 400):
            files = {**SMALL, **{f"{folder}/__init__.py": content for folder in "abcdefgh"}}
            with self.subTest(len(content)):
                hub = self.hub(files=files)
                self.pull(hub)
                self.check_files(hub)
                shutil.rmtree(self.out)

    def test_gives_up_on_bytes_that_stay_wrong(self):
        def act(handler, path, _):
            if path.endswith("config.json"):
                Hub.send(handler, 200, b'{"model_type": "z"}\n')
                return True
            return False

        done = self.pull(self.hub(act=act), code=3)
        self.assertIn("config.json: 3 times other content came", done.stderr)
        self.assertFalse((self.out / "config.json").exists())

    def test_restarts_when_the_hub_sends_whole_files_alone(self):
        hub = self.hub()
        work = self.out / ".tephra-pull"
        work.mkdir(parents=True)
        part = work / PART
        part.write_bytes(BIG[:1000])

        def act(handler, path, _):
            if path.endswith("model.safetensors"):
                Hub.send(handler, 200, BIG)
                return True
            return False

        hub.act = act
        self.pull(hub)
        self.check_files(hub)

    def test_survives_parts_that_are_too_long_or_damaged(self):
        for content in (BIG + b"more", b"?" * 1000, BIG[:-1] + b"?"):
            with self.subTest(len(content)):
                hub = self.hub()
                work = self.out / ".tephra-pull"
                work.mkdir(parents=True, exist_ok=True)
                (self.out / "model.safetensors").unlink(missing_ok=True)
                (work / PART).write_bytes(content)
                self.pull(hub)
                self.check_files(hub)

    def test_waits_as_long_as_the_hub_asks(self):
        def act(handler, path, number):
            if number > 1:
                return False
            if path.endswith("config.json"):
                Hub.send(handler, 429, b'{"error": "slow down"}', Retry_After="1")
                return True
            if path.startswith("/api/"):
                Hub.send(handler, 503, b"", Retry_After="0")
                return True
            return False

        hub = self.hub(act=act)
        begin = time.monotonic()
        done = self.pull(hub)
        self.assertGreater(time.monotonic() - begin, 1)
        self.assertIn("status 429: {\"error\": \"slow down\"}; trying again in 1.0 s", done.stderr)
        self.check_files(hub)

    def test_gives_up_after_so_many_tries(self):
        def act(handler, path, _):
            if path.endswith("empty") or path.startswith("/api/"):
                return False
            Hub.send(handler, 500, b"<html>oops")
            return True

        done = self.pull(self.hub(act=act), "--retries", "2", "--jobs", "1", code=3)
        self.assertIn("gave up after 3 tries; the last: status 500\n", done.stderr)
        self.assertIn("goes on where it stopped", done.stderr)

    def test_says_that_a_hub_cannot_be_reached(self):
        hub = Hub()
        hub.close()
        done = self.pull(hub, "--retries", "1", code=3)
        self.assertRegex(done.stderr, "owner/name: gave up after 2 tries; .*connect")
        done = self.pull(hub, code=3)  # by its own eight retries it would take minutes
        self.assertRegex(done.stderr, f"owner/name: no hub can be reached at {hub.url}: .*connect")
        self.assertIn("HF_ENDPOINT", done.stderr)

    def test_says_what_is_refused_and_why(self):
        for status, says in ((401, "HF_TOKEN"), (403, "HF_TOKEN"), (404, "--revision")):
            with self.subTest(status):
                def act(handler, _path, _number, status=status):
                    Hub.send(handler, status, b"{}", X_Error_Message="not for you")
                    return True

                done = self.pull(self.hub(act=act), code=2)
                self.assertIn(f"owner/name at revision main: the hub answers with status {status}: "
                              "not for you", done.stderr)
                self.assertIn(says, done.stderr)

    def test_shows_its_token_to_the_hub_alone(self):
        elsewhere = self.hub(act=lambda handler, _path, _number:
                             elsewhere.send_file(handler, BIG, ETag='"storage"') or True)

        def act(handler, path, _):
            if path.endswith("model.safetensors"):
                Hub.send(handler, 302, b"moved", Location=elsewhere.url + "/blob",
                         X_Linked_Etag='"%s"' % hashlib.sha256(BIG).hexdigest(),
                         X_Linked_Size=str(len(BIG)))
                return True
            return False

        hub = self.hub(act=act)
        self.pull(hub, token="hf_secret")
        self.check_files(hub)
        self.assertTrue(all(h["Authorization"] == "Bearer hf_secret" for _, h in hub.requests))
        self.assertEqual([h.get("Authorization") for _, h in elsewhere.requests], [None])
        # A hub whose listing tells no hashes: those of the answers are met.
        hub.blobs = False
        (self.out / "model.safetensors").unlink()
        done = json.loads(self.pull(hub, "--json", token="hf_secret").stdout)
        model = next(f for f in done["files"] if f["name"] == "model.safetensors")
        self.assertTrue(model["hash_checked"])
        self.assertEqual(model["sha256"], hashlib.sha256(BIG).hexdigest())

    def test_refuses_hostile_names(self):
        for name in ("../evil", "/tmp/evil", "a/../../evil", "a\\..\\evil", ".tephra-pull/lock"):
            with self.subTest(name):
                listing = json.dumps({"sha": COMMIT, "siblings": [{"rfilename": name}]})
                done = self.pull(self.hub(listing=listing), code=3)
                self.assertIn("is no name of a file below a folder", done.stderr)
                self.assertFalse(self.out.exists())

    def test_refuses_listings_that_are_none(self):
        for listing in ("{", "[]", "{}", '{"sha": "x/../y", "siblings": []}', "<html>"):
            with self.subTest(listing):
                done = self.pull(self.hub(listing=listing), code=3)
                self.assertIn("the hub's listing of owner/name", done.stderr)

    def test_a_killed_pull_goes_on(self):
        gate = threading.Event()

        def act(handler, path, number):
            if not path.endswith("model.safetensors") or number > 1:
                return False
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(BIG)))
            handler.end_headers()
            handler.wfile.write(BIG[:2_000_000])
            handler.wfile.flush()
            gate.wait(30)
            return True

        hub = self.hub(act=act)
        self.addCleanup(gate.set)
        child = subprocess.Popen(self.command(), stderr=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, env=self.environment(hub))
        part = self.out / ".tephra-pull" / PART
        for _ in range(1000):
            if part.exists() and part.stat().st_size == 2_000_000:
                break
            time.sleep(0.01)
        busy = self.pull(hub, code=2)
        self.assertIn("another pull works on this folder", busy.stderr)
        child.send_signal(signal.SIGKILL)
        child.wait()
        self.assertFalse((self.out / "model.safetensors").exists())
        self.pull(hub)
        self.check_files(hub)
        last = [h for p, h in hub.requests if p.endswith("model.safetensors")][-1]
        self.assertEqual(last["Range"], "bytes=2000000-")

    def test_ctrl_c_keeps_what_came(self):
        gate = threading.Event()

        def act(handler, path, number):
            if path.endswith("model.safetensors") and number == 1:
                handler.send_response(200)
                handler.send_header("Content-Length", str(len(BIG)))
                handler.end_headers()
                handler.wfile.write(BIG[:1000])
                handler.wfile.flush()
                gate.wait(30)
                return True
            return False

        hub = self.hub(act=act)
        self.addCleanup(gate.set)
        child = subprocess.Popen(self.command(), stderr=subprocess.PIPE, env=self.environment(hub))
        part = self.out / ".tephra-pull" / PART
        for _ in range(1000):
            if part.exists() and part.stat().st_size == 1000:
                break
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(20), 130)
        child.stderr.close()
        self.assertEqual(part.stat().st_size, 1000)


unittest.main()

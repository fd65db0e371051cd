#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves a random model and lets OpenAI's JavaScript client talk to it. Arguments: the tephra
binary, the source folder, a folder for npm's packages. Needs npm and its registry, once."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import npm  # noqa: E402

CLIENT = "openai@6.16.0"


def make_model(tephra, source, folder):
    subprocess.run([tephra, "checkpoint", "random", "--quiet", "--config",
                    source / "tests/eval/config.json", "--out", folder], check=True, timeout=60)
    shutil.copy(source / "tests/golden/tokenizer-byte-level/tokenizer.json", folder)
    shutil.copy(source / "tests/golden/chat/zaya1.jinja", folder / "chat_template.jinja")


def start(tephra, model, keys):
    server = subprocess.Popen([tephra, "serve", "--model", model, "--port", "0", "--api-key-file",
                               keys, "--kv-memory", "64MiB", "--threads", "2"],
                              stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        found = re.search(r"served at (http://\S+/v1)", line)
        if found:
            return server, found.group(1)
    sys.exit(f"the server did not start; exit code {server.wait()}")


def main():
    tephra, source, packages = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
    npm.install(packages, CLIENT)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        make_model(tephra, source, scratch / "model")
        (scratch / "keys").write_text("a-secret-key\n")
        server, url = start(tephra, scratch / "model", scratch / "keys")
        try:
            # Node looks for packages beside the script.
            script = packages / "openai_client_test.mjs"
            shutil.copy(source / "tests/serve/openai_client_test.mjs", script)
            subprocess.run(["node", script, url, "a-secret-key"], check=True, timeout=300,
                           env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"})
            server.send_signal(signal.SIGTERM)
            rest = server.stderr.read()
            if server.wait(timeout=60) != 0:
                sys.exit(f"the server did not end well: {rest}")
        finally:
            if server.poll() is None:
                server.kill()


main()

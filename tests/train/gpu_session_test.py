#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/session.sh with stand-ins for the binaries of its kit and for the GPU; and what gpu_runs_test.py and
gpu_golden_test.py say without one.

    gpu_session_test.py SOURCE_DIR
"""
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from unittest import mock

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
SESSION = SOURCE / "bench/gpu/session.sh"
BINARIES = ("device_test", "core_test", "ops_test", "infer_test", "optim_test")

GTEST = "#!/bin/sh\necho '[  PASSED  ] 3 tests.'\n"
TEPHRA = "#!/bin/sh\necho '12.5 tokens/s'\necho 'loss 1.5: abc'\n"
RANDOM = "#!/bin/sh\necho \"loss 1.5: $(date +%N)1\"\n"
OTHERS = {"nvidia-smi": "#!/bin/sh\necho Stand-in\n", "sanitizer": GTEST + "echo '=== ERROR SUMMARY: 0 errors'\n"}
# It cannot be asked to end, and neither can its child. Both are to be found in $PIDS.
STUBBORN = "#!/bin/sh\ntrap '' TERM\nsleep 120 &\necho $$ $! >>$PIDS\nwait\n"


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


class Session(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.kit, self.out, self.pids = self.root / "kit", self.root / "out", self.root / "pids"
        self.temporary = self.root / "temporary"
        self.temporary.mkdir()
        self.make_kit("one")
        for name, text in OTHERS.items():
            self.program(self.root / "path" / name, text)

    def program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def make_kit(self, commit):
        for name in BINARIES:
            self.program(self.kit / "bin" / name, GTEST)
        self.program(self.kit / "bin" / "tephra", TEPHRA)
        for script in ("train/gpu_runs_test.py", "infer/gpu_golden_test.py", "infer/gpu_trained_test.py"):
            self.program(self.kit / "tests" / script, "import sys\nprint('ok    as it should:', *sys.argv[2:])\n")
        shutil.copy(SESSION, self.kit)
        (self.kit / "commit").write_text(commit + "\n")

    def archive(self):
        with tarfile.open(self.root / "kit.tar.xz", "w:xz") as tar:
            tar.add(self.kit, "kit")

    def environment(self, **variables):
        return dict(os.environ, PATH=f"{self.root / 'path'}:{os.environ['PATH']}", OUT=str(self.out),
                    SANITIZER=str(self.root / "path/sanitizer"), PIDS=str(self.pids), TMPDIR=str(self.temporary),
                    **variables)

    def check(self, *parts, **variables):
        return subprocess.run(["sh", SESSION, "check", self.kit, *parts], capture_output=True, text=True, timeout=100,
                              env={**self.environment(), **variables})

    def lines(self):
        return (self.out / "summary.txt").read_text().splitlines()

    def verdicts(self):
        return {line.split()[3]: line.split()[0] for line in self.lines()[1:]}

    def test_a_whole_check_has_a_line_for_each_part_and_says_what_ran_where(self):
        ran = self.check()
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        self.assertEqual(self.lines()[0], "commit one, Stand-in")
        self.assertEqual(ran.stdout.splitlines(), self.lines())
        self.assertEqual(set(self.verdicts().values()), {"PASS"})
        order = list(self.verdicts())
        self.assertEqual(order[:2] + order[-1:], ["device", "ops-0", "initcheck-cca"])
        self.assertLess(order.index("runs"), order.index("step"))
        asked_only = ("memcheck-ops", "memcheck-whole", "portable", "trainer", "profile", "peers", "flat", "whole")
        self.assertEqual([name for name in order if name.startswith(asked_only)], [])
        with tarfile.open(self.out / "check.tar.gz") as tar:
            self.assertEqual(sorted(name for name in tar.getnames() if name.endswith(".log")),
                             sorted(f"./{name}.log" for name in order))
        self.assertEqual(sorted(os.listdir(self.out)), ["check.tar.gz", "summary.txt"])
        self.assertEqual(os.listdir(self.temporary), [])

    def test_hazards_count_in_our_kernels_and_not_in_the_librarys(self):
        report = "echo '=== Error: Race reported between Read access at {}+0xa40'\n"
        for kernel, verdict in (("nvjet_sm90_tst_96x192", "PASS"), ("void tephra::rows<4>", "FAIL")):
            self.program(self.root / "path/sanitizer", GTEST + report.format(kernel))
            self.check("racecheck-cca")
            self.assertEqual(self.verdicts(), {"racecheck-cca": verdict})
        self.program(self.root / "path/sanitizer", "#!/bin/sh\necho it crashed\nexit 1\n")
        self.check("racecheck-cca")
        self.assertEqual(self.verdicts(), {"racecheck-cca": "FAIL"})

    def test_an_archive_replaces_the_folder_beside_it(self):
        self.make_kit("two")
        self.archive()
        self.make_kit("one")
        (self.kit / "bin/stray").write_text("")
        self.assertEqual(self.check("device").returncode, 0)
        self.assertEqual(self.lines()[0], "commit two, Stand-in")
        self.assertFalse((self.kit / "bin/stray").exists())

    def test_a_broken_archive_runs_nothing(self):
        self.archive()
        whole = (self.root / "kit.tar.xz").read_bytes()
        (self.root / "kit.tar.xz").write_bytes(whole[:len(whole) // 2])
        ran = self.check("device")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("cannot be unpacked", ran.stderr)
        self.assertFalse(self.out.exists())

    def test_pack_writes_the_commit_into_the_kit(self):
        build = self.root / "build"
        for name in ("tephra", *(f"tests/{binary}" for binary in BINARIES)):
            (build / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(shutil.which("true"), build / name)
        packed = subprocess.run(["sh", SESSION, "pack", build, self.kit], capture_output=True, text=True)
        self.assertEqual(packed.returncode, 0, packed.stderr)
        git = subprocess.run(["git", "-C", SOURCE, "describe", "--always", "--dirty"], capture_output=True, text=True)
        commit = git.stdout.strip() or "unknown"
        golden = [path.relative_to(SOURCE) for path in SOURCE.glob("tests/golden/*/golden.safetensors")]
        self.assertGreaterEqual(len(golden), 5)
        self.assertEqual([path for path in golden if not (self.kit / path).exists()], [])
        shutil.rmtree(self.kit)
        self.assertEqual(self.check("device").returncode, 0)
        self.assertEqual(self.lines()[0], f"commit {commit}, Stand-in")

    def test_every_name_that_is_asked_for_must_be_a_part(self):
        for asked in (["decod"], ["ops", "nothing"], [""]):
            ran = self.check(*asked)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(f"no part '{asked[-1]}'", ran.stderr)
            self.assertIn("racecheck-cca", ran.stderr)
        self.assertEqual(self.check("bits", "ops-1").returncode, 0)
        self.assertEqual(list(self.verdicts()), ["ops-1", "bits-8", "bits-4"])

    def test_memcheck_of_all_ops_runs_in_parts_and_only_when_asked_for(self):
        tried = "#!/bin/sh\necho \"=== ERROR SUMMARY: 0 errors, $GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS, $*\"\n"
        self.program(self.root / "path/sanitizer", tried)
        self.assertEqual(self.check("memcheck-ops", "runs").returncode, 0)
        names = [f"memcheck-ops-{i}" for i in range(8)]
        self.assertEqual(list(self.verdicts()), ["runs", "runs-bf16", "runs-heads", "runs-layers", *names])
        self.assertIn("--dtype bf16", self.lines()[2])
        self.assertIn("--shape heads", self.lines()[3])
        for i, line in enumerate(self.lines()[5:]):
            self.assertIn(f" {i} of 8, --tool memcheck", line)

    def test_without_a_command_it_says_all_that_it_can_do(self):
        ran = subprocess.run(["sh", SESSION], capture_output=True, text=True, timeout=20)
        self.assertEqual(ran.returncode, 2)
        self.assertTrue(ran.stdout.rstrip().endswith("Ctrl-C, TERM and HUP end them all."), ran.stdout[-200:])

    def test_a_kit_stays_where_there_is_nothing_to_make_one_of(self):
        self.archive()
        ran = subprocess.run(["sh", SESSION, "pack", self.root / "nothing", self.kit], capture_output=True, text=True,
                             timeout=20)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("there is no", ran.stderr)
        self.assertTrue((self.kit / "commit").exists() and (self.root / "kit.tar.xz").exists())

    def test_what_gpus_without_fast_paths_run_is_asked_for_and_leaves_the_other_parts_as_they_are(self):
        says = "#!/bin/sh\necho \"[  PASSED  ] 1 test ${TEPHRA_GPU_PORTABLE:-fast}\"\necho \"ok    ${TEPHRA_GPU_PORTABLE:-fast}\"\n"
        for name in ("bin/ops_test", "bin/infer_test", "bin/optim_test", "bin/portable_gemm_bench", "bin/tephra"):
            self.program(self.kit / name, says)
        self.program(self.root / "path/sanitizer", says)
        self.check("portable", "ops", "memcheck-portable", "step", "memcheck-cca")
        self.assertEqual(set(self.verdicts().values()), {"PASS"}, self.lines())
        said = {line.split()[3]: line for line in self.lines()[1:]}
        self.assertEqual(len(said), 4 + 7 + 2 + 1 + 2)
        for name, line in said.items():
            portable = "portable" in name and name != "portable-products"  # which runs both
            if name != "portable-golden":  # a stand-in without words of its own
                self.assertIn("ok 1" if portable else "ok fast", line)

    def test_a_folder_that_cannot_be_written_and_a_limit_that_is_none_are_found_first(self):
        self.program(self.kit / "bin/ops_test", STUBBORN)
        for wrong in ({"OUT": str(self.kit / "commit" / "out")}, {"LIMIT": "9m"}, {"LIMIT": "0"}, {"LIMIT": "-5"}):
            ran = self.check("ops", **wrong)
            self.assertEqual(ran.returncode, 2, wrong)
            self.assertIn(*wrong, ran.stderr)
        self.assertFalse(self.pids.exists())

    def test_the_logs_stay_where_they_cannot_be_brought_out(self):
        self.program(self.kit / "bin/optim_test", GTEST + "rm -r \"$OUT\"\n")
        ran = self.check("optim")
        self.assertEqual(ran.returncode, 2)
        folder = ran.stderr.strip().rpartition(" ")[2]
        self.assertIn("PASSED", (pathlib.Path(folder) / "optim.log").read_text())

    def test_who_left_the_group_of_a_part_ends_with_it(self):
        self.program(self.kit / "bin/optim_test", "#!/bin/sh\nsetsid sleep 120 &\necho $! >>$PIDS\n" + GTEST)
        self.assertEqual(self.check("optim").returncode, 0)
        self.assertEqual([pid for pid in self.pids.read_text().split() if alive(pid)], [])

    def test_two_runs_must_end_in_one_state(self):
        self.assertEqual(self.check("same").returncode, 0)
        self.program(self.kit / "bin/tephra", RANDOM)
        ran = self.check("same")
        self.assertEqual((ran.returncode, ran.stderr, self.verdicts()), (1, "", {"same": "FAIL"}))
        self.assertIn("different states", ran.stdout)

    def test_a_part_that_something_else_killed_has_failed(self):
        self.program(self.kit / "bin/optim_test", "#!/bin/sh\nkill -KILL $$\n")
        self.check("optim")
        self.assertEqual(self.verdicts(), {"optim": "FAIL"})

    def test_what_has_no_time_left_is_late_and_named(self):
        self.program(self.kit / "bin/tephra", "#!/bin/sh\nsleep 100\n")
        ran = self.check("optim", "verify", "bits", LIMIT="6")
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(self.verdicts(), {"optim": "PASS", "verify": "LATE", "bits-8": "LATE", "bits-4": "LATE"})
        self.assertEqual(ran.stdout.splitlines()[-1], f"late: session.sh check {self.kit} verify bits-8 bits-4")

    def stop(self, number, *parts):
        """Sends a signal when one part has passed and others hang; what was brought out until then."""
        session = subprocess.Popen(["sh", SESSION, "check", self.kit, *parts], stdout=subprocess.PIPE, text=True,
                                   env=self.environment())
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (self.pids.exists() and "PASS" in self.verdicts().values()):
            time.sleep(0.1)
        before = self.verdicts()
        session.send_signal(number)
        said, _ = session.communicate(timeout=30)
        self.assertEqual(session.returncode, 1)
        self.assertEqual([pid for pid in self.pids.read_text().split() if alive(pid)], [])
        self.assertEqual(os.listdir(self.temporary), [])
        self.assertIn("did not end", said)
        return before

    def test_a_signal_ends_all_parts_and_leaves_what_had_ended(self):
        self.program(self.kit / "bin/ops_test", STUBBORN)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before = self.stop(number, "ops-0", "ops-1", "optim", "step")
            self.assertEqual(before, {"ops-0": "LATE", "ops-1": "LATE", "optim": "PASS", "step": "LATE"})
            self.assertEqual(self.verdicts(), before)
            self.pids.unlink()

    def test_a_signal_ends_a_part_that_runs_alone(self):
        self.program(self.kit / "bin/tephra", STUBBORN)
        self.assertEqual(self.stop(signal.SIGTERM, "optim", "verify", "step"),
                         {"optim": "PASS", "verify": "LATE", "step": "LATE"})


class GpuGolden(unittest.TestCase):
    def verify(self, answer, code):
        """What it says of the golden files here when a stand-in for the program gives each of them this answer."""
        with tempfile.TemporaryDirectory() as folder:
            tephra = pathlib.Path(folder) / "tephra"
            tephra.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n")
            tephra.chmod(0o755)
            script = SOURCE / "tests/infer/gpu_golden_test.py"
            return subprocess.run([sys.executable, script, tephra, SOURCE, "--device", "cpu"], capture_output=True, text=True)

    def test_all_cases_have_to_pass(self):
        checks = '{"checks": [{"name": "y", "metric": "absolute", "max_abs": 1e-5, "max_rel": 1, "bound": 2e-5}]}'
        ran = self.verify(checks, 0)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("ok    zaya-tiny-wide bf16: 1 checks, y 50 % of its bound\n", ran.stdout)
        self.assertIn("ok    15 of 15 cases passed", ran.stdout)
        ran = self.verify(checks, 3)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("FAIL  train-muon f32: code 3", ran.stdout)


class GpuRuns(unittest.TestCase):
    def test_what_only_a_gpu_can_show_is_refused_on_a_cpu(self):
        command = [sys.executable, SOURCE / "tests/train/gpu_runs_test.py", "/bin/false", SOURCE, "--device", "cpu"]
        ran = subprocess.run([*command, "--only", "killed,large,server"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("needs a GPU: large, server", ran.stderr)
        self.assertIn("lost", subprocess.run([*command, "--help"], capture_output=True, text=True).stdout)

    def test_a_server_that_says_nothing_has_no_status(self):
        sys.path.insert(0, str(SOURCE / "tests/train"))
        import gpu_runs_test
        with mock.patch.object(http.client.HTTPConnection, "request", side_effect=TimeoutError):
            self.assertEqual(gpu_runs_test.ask_for_tokens(1, 1), 0)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What tests that need a GPU ask first."""
import json
import subprocess
import sys


def need_gpu(tephra):
    """Ends the test where there is none: skipped. A program that cannot say is a failure."""
    probe = subprocess.run([tephra, "doctor", "--no-measure", "--json"], capture_output=True, text=True)
    if probe.returncode:
        print(f"FAIL  doctor: code {probe.returncode}: {probe.stderr.strip()[-500:]}")
        sys.exit(1)
    if not json.loads(probe.stdout)["gpu"]["devices"]:
        print("no GPU: skipped")
        sys.exit(77)

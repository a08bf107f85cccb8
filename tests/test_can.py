"""Everything over CAN, in a virtual machine whose kernel has it.     SPDX-License-Identifier: MIT"""

from __future__ import annotations

import re
import subprocess

from tests.servers import ROOT, built
from tests.vm import run_in_vm

# Without plugins and rewritten assertions: Python is slow in an emulated machine.
GUEST = ("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 build/venv/bin/python -m pytest -q -p no:cacheprovider "
         "--assert=plain --color=no --tb=short --durations=8 tests/vm_can.py")


def test_in_a_machine_with_can() -> None:
    for program in ("canserver", "udpserver", "avr_can", "firmware/can_avr.elf"):
        built(f"build/{program}")
    status, output = run_in_vm(GUEST)
    print(output)
    assert status == 0, output
    passed = re.findall(r"^(\d+) passed in ", output, re.M)  # and none is skipped
    assert passed and int(passed[0]) >= 26, output


def test_help_fits_the_terminal_and_the_manual_has_every_option() -> None:
    help_text = subprocess.run([built("build/canserver"), "--help"], check=True, capture_output=True,
                               text=True).stdout
    assert max(map(len, help_text.splitlines())) < 80 and len(help_text.splitlines()) < 24
    manual = (ROOT / "canserver.8").read_text().replace("\\-", "-")
    options = re.findall(r"^  (--[a-z-]+)", help_text, re.M)
    assert len(options) == 9 and all(option in manual for option in options)


def test_without_can_it_says_so() -> None:
    done = subprocess.run([built("build/canserver"), "nocan0"], capture_output=True, text=True)
    assert done.returncode == 1
    assert re.fullmatch("canserver: cannot use nocan0: (this kernel has no CAN; modprobe can-raw may load "
                        "it|there is no such CAN interface; ip link lists them)\n", done.stderr)

"""Everything over CAN, in a virtual machine whose kernel has it.     SPDX-License-Identifier: MIT"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import client
from sim.targets import run
from tests import vm
from tests.servers import ROOT, built

# Without plugins and rewritten assertions: Python is slow in an emulated machine.
GUEST = ("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 build/venv/bin/python -m pytest -q -p no:cacheprovider "
         "--assert=plain --color=no --tb=short --durations=8 tests/vm_can.py")


def test_in_a_machine_with_can() -> None:
    for program in ("canserver", "udpserver", "avr_can", "firmware/can_avr.elf"):
        built(f"build/{program}")
    status, output = vm.run_in_vm(GUEST)
    print(output)
    assert status == 0, output
    passed = re.findall(r"^(\d+) passed in ", output, re.M)  # and none is skipped
    assert passed and int(passed[0]) >= 27, output


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


@pytest.mark.parametrize("address, why", [
    ("can:", "'can:' is not a CAN interface: write it like can:can0"),
    ("can:a/b", "'can:a/b' is not a CAN interface"), ("can:" + "x" * 16, "is not a CAN interface"),
    ("can:can0:", "'' is not a CAN identifier: it has 3 hexadecimal digits, or 8"),
    ("can:can0:0x680", "'0x680' is not a CAN identifier"), ("can:can0:1680", "is not a CAN identifier"),
    ("can:can0:681", "it must be a multiple of 80 hexadecimal, like 680"),
    ("can:can0:880", "'880' cannot be the first of 128 identifiers"),
    ("can:can0:20000000", "cannot be the first"), ("can:can0:680:1", "is not a CAN identifier")])
def test_addresses_that_cannot_be(address: str, why: str) -> None:
    with pytest.raises(client.BadUsage, match=re.escape(why)):
        client.Agent(address)


def test_a_kernel_that_cannot_be_fetched_is_a_failure(monkeypatch: pytest.MonkeyPatch,
                                                      tmp_path: Path) -> None:
    """And says why, from apt; no test is skipped."""
    monkeypatch.setattr(vm, "BUILD", tmp_path)
    monkeypatch.setattr(vm, "unpack", lambda work, package: run(["apt-get", "download", "no-such-kernel"]))
    with pytest.raises(SystemExit, match="no-such-kernel"):
        vm.kernel.__wrapped__()

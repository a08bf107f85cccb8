"""Everything over CAN, in a virtual machine whose kernel has it.     SPDX-License-Identifier: MIT"""

from __future__ import annotations

import re

from tests.servers import built
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

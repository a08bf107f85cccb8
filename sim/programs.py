"""Builds programs with the Makefile for scripts.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import functools
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from sim.targets import ROOT

# Seconds until something that we wait for has failed. Machines may be busy.
PATIENCE = float(os.environ.get("DUMPULSE_PATIENCE", "30"))


@functools.cache
def built(program: str) -> str:
    """Builds a file of the Makefile if it is not up to date. Returns its path."""
    subprocess.run(["make", "--no-print-directory", "-s", "-C", ROOT, program], check=True)
    return str(ROOT / program)


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not seen in {PATIENCE:.0f} s: {what}"
        time.sleep(0.005)


def open_files(pid: int) -> int:
    """Returns how many descriptors a server has open. For each line it opens its log once more, for
    a moment: so this is the smallest of some counts."""
    counts = []
    for _ in range(10):
        counts.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
        time.sleep(0.01)
    return min(counts)

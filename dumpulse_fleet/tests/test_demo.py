"""The demo, and its simulated agents."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from dumpulse_fleet.http_client import FleetClient
from dumpulse_fleet.tests.collecting import PATIENCE, until
from dumpulse_fleet.tests.serving import ROOT


def test_the_demo(tmp_path: Path) -> None:
    """From the command to the page and its troubles, and back to nothing."""
    with subprocess.Popen([sys.executable, "-m", "dumpulse_fleet.simulation.demo", "--agents", "40",
                           "--port", "29061"],
                          stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
                          env={**os.environ, "TMPDIR": str(tmp_path)}) as process:
        try:
            assert process.stdout
            lines = [process.stdout.readline() for _ in range(4)]
            page = re.fullmatch(r"Open this page:  (http://127.0.0.1:\d+/)\n", lines[2])
            assert page, lines
            with urllib.request.urlopen(page[1], timeout=10) as answer:
                assert b"<html" in answer.read()
            (folder,) = tmp_path.iterdir()
            fleet = FleetClient(page[1], str(folder / "token"))

            def states() -> dict[str, int]:
                found: dict[str, int] = fleet.request("/api/v1/summary")["agents"]
                return found

            until(lambda: states().get("alive", 0) >= 30, lambda: states())
            until(lambda: set(states()) - {"alive", "late"}, lambda: "nothing happens")
            assert fleet.request("/api/v1/groups")["groups"]
        finally:
            begun = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)  # Ctrl-C does the same.
            process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and time.monotonic() - begun < 20
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError):
        urllib.request.urlopen(page[1], timeout=5)

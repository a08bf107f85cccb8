"""What `make try` shows of each board."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from firmware.simulators.boards import BOARDS, Board
from spec.model import heartbeat
from tools.programs import ROOT
from tools.tiers import tiered

FRAME = r"  can0  [0-9A-F]{3,8}   \[[48]\]  [0-9A-F]{2}(?: [0-9A-F]{2}){3,7}\n"
ENTRY = r"  variable {}: sender {}, value {}, timestamp {}\n"
TIME = r"(?:Its report was|Its first frames were) here after \d+\.\d s\.\n"
SHOWS = {  # the end, for some boards; for the others, see below
    "sender_attiny13": "".join(heartbeat(7, 7, beat).hex(" ") + "\n" for beat in range(5)),
    "keyed_attiny85": r"It sends:\n(?:87(?: [0-9a-f]{2}){9}\n){4,}",
    "keyed_atmega328p": ENTRY.format(7, 7, 2, 3), "keyed_stm32": ENTRY.format(7, 7, 2, 3),
    "node_stm32": r"It sends:\n(?:87(?: [0-9a-f]{2}){9}\n){4,}",
    "can_avr-keyed": ENTRY.format(3, 1, 126, 1),
    "i2c_atmega328p": ENTRY.format(3, 1, 126, 0) + ENTRY.format(7, 12, 9, 0)}


def make_try(name: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    """Runs what `make try BOARD=name` runs."""
    return subprocess.run([sys.executable, "-m", "firmware.simulators.boards", name], cwd=ROOT,
                          capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PATH": path})


@pytest.mark.parametrize("board", tiered(BOARDS.values(), lambda board: bool(board.mcu)),
                         ids=lambda board: board.name)
def test_what_it_shows(board: Board) -> None:
    """The program itself checks each report."""
    shows = SHOWS.get(board.name) or (
        r"(?:\$ ./client.py [sg]et .*\n(?:[^$].*\n|\n)*){3}" if board.baud else
        rf"go to the board:\n(?:{FRAME}){{3}}The board answers with a report:\n(?:{FRAME}){{33}}"
        rf".*\n.*\n{ENTRY.format(3, 1, 126, 0)}{ENTRY.format(7, 12, 9, 2)}")
    pins = r".*\n(?:.* s  P..? .*\n)* +3\.\d+ s  P[BC]5 high\n(?:.*\n)? +7\.\d+ s  P[BC]0 low\n"
    pins = pins if board.pins and not board.keyed else ""
    done = make_try(board.name)
    assert done.returncode == 0, done.stderr
    assert re.search(shows + TIME + pins + r"\Z", done.stdout), done.stdout
    assert "client.py" not in done.stdout or re.search(r"^ *3\b.*\b126\b", done.stdout, re.M)


@pytest.mark.parametrize(("name", "path", "status", "says"), [
    ("uart_stm32-f4", "/nowhere", 1, "qemu-system-arm is not here: make setup fetches it\n"),
    ("nonsense", os.environ["PATH"], 2, f"the boards are: {', '.join(BOARDS)}\n"),
    ("", os.environ["PATH"], 2, f"the boards are: {', '.join(BOARDS)}\n")])
def test_what_it_says_instead(name: str, path: str, status: int, says: str) -> None:
    done = make_try(name, path)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.endswith(says) and done.stderr.count("\n") == 1
